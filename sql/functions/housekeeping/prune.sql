-- Delete finished jobs whose retention is over, with their attempts and requests.
--
-- Also what else grows: audit rows after 90 days, workers not seen for a day, sleepers that
-- should have woken a day ago. Touches no live job.
--
-- Arguments: p_limit 1 to 10,000 jobs, and as many rows of audit.
-- Returns: how many jobs were deleted.
-- Locks: finished rows in order of time, then their unique_keys rows, then those of workers and
--   sleepers, skipping locked ones; one pass at a time, another returns 0.
-- Raises: TQ422 bad input.
-- Called by: workers, housekeep.
create or replace function taskq.prune(p_limit int = 1000)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
as $$
declare
  v_now   constant timestamptz := taskq.clock();
  v_ids   bigint[];
  v_count int := 0;
begin
  if not taskq.start_pass('prune', p_limit) then
    return 0;
  end if;
  with locked as materialized (
    select f.id
    from taskq.finished f
    where f.purge_at <= v_now
    order by f.purge_at
    limit p_limit
    for update skip locked
  )
  select array_agg(l.id) into v_ids from locked l;
  if v_ids is not null then
    -- a key that somebody takes right now keeps its job until the next pass
    delete from taskq.unique_keys u
    where u.ctid = any (array(
      select k.ctid from taskq.unique_keys k where k.job_id = any (v_ids) for update skip locked));
    v_ids := array(
      select i.id from unnest(v_ids) as i (id)
      except
      select u.job_id from taskq.unique_keys u where u.job_id = any (v_ids));
    delete from taskq.attempts a where a.job_id = any (v_ids);
    delete from taskq.finished f where f.id = any (v_ids);
    get diagnostics v_count = row_count;
    delete from taskq.jobs j where j.id = any (v_ids);
  end if;

  delete from taskq.audit a
  where a.id = any (array(
    select o.id from taskq.audit o where o.at <= v_now - interval '90 days' order by o.at limit p_limit));
  delete from taskq.workers w
  where w.worker_id = any (array(
    select o.worker_id from taskq.workers o where o.seen_at <= v_now - interval '1 day' for update skip locked));
  delete from taskq.sleepers s
  where s.worker_id = any (array(
    select o.worker_id from taskq.sleepers o where o.wakes_at <= v_now - interval '1 day' for update skip locked));
  return v_count;
end
$$;

comment on function taskq.prune is
  'Delete finished jobs whose retention is over, with their attempts and requests.';
