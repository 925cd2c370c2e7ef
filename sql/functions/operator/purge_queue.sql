-- Cancel the jobs that wait in a queue, due or not; those that run go on.
--
-- One call is bounded: call again until nothing comes back. A job that somebody has locked, such as
-- a claim, is passed over, since whoever waited for it would stop others; the next call meets it.
--
-- Arguments: p_queue; p_limit 1 to 10,000 jobs; p_actor, null = the session's role; p_reason, kept
--   with each job.
-- Returns: one row per job: job_id; result and status cancelled.
-- Locks: ready rows, skipping locked ones; then their unique_keys rows, skipping locked ones.
-- Raises: TQ422 bad input.
-- Called by: operators.
create or replace function taskq.purge_queue(
  p_queue  text,
  p_limit  int = 1000,
  p_actor  text = null,
  p_reason text = null
)
returns table (job_id bigint, result text, status text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  perform taskq.check_jobs(p_queue collate "default", '{}');
  if p_limit is null or p_limit not between 1 and 10000 then
    raise exception using errcode = 'TQ422',
      message = format('p_limit %s of purge_queue is outside 1 to 10000', coalesce(p_limit::text, 'null'));
  end if;
  v_ids := array(
    select r.id from taskq.ready r
    where r.queue = p_queue collate "default" and r.hold is null
    order by r.priority desc, r.scheduled_at, r.id
    limit p_limit
    for update skip locked);
  v_ids := v_ids || array(
    select r.id from taskq.ready r
    where r.queue collate "C" = p_queue and (r.hold is null) is false
    limit p_limit - cardinality(v_ids)
    for update skip locked);
  perform taskq.finish_ready(v_ids, 'cancelled', p_reason);
  perform taskq.write_audit('purge_queue', 'queue ' || p_queue, p_actor, p_reason,
    jsonb_build_object('cancelled', cardinality(v_ids)));
  return query select u.id, 'cancelled', 'cancelled' from unnest(v_ids) as u (id);
end
$$;

comment on function taskq.purge_queue is
  'Cancel the jobs that wait in a queue, due or not; those that run go on.';
