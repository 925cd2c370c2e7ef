-- Enqueue many jobs of one queue in one call: all of them, or none on bad input.
--
-- A duplicate of a unique key never fails the batch: its row says `existed`. A full queue does:
-- its jobs are stored all or none. Of several replacing ones the last counts. Within one call
-- keys are taken in one order, so calls with the same keys in any order do not deadlock.
--
-- Arguments: p_queue; p_jobs a JSON array, up to 10,000 objects and 8 MiB, whose properties
--   are the parameters of enqueue without `p_`: task, payload, priority, scheduled_at, delay,
--   unique_key, concurrency_key, max_attempts, backoff, backoff_max, lease, ttl, headers,
--   unique_mode, unique_scope, unique_for, ordered; intervals as PostgreSQL text or a number of
--   seconds; of ordered jobs up to 256 keys; p_skip_wake as in enqueue.
-- Returns: one row per object in input order: ordinal from 0, status, job_id.
-- Locks: as enqueue.
-- Raises: TQ422 bad input, the ordinal named; TQ001 no such queue, where queues are strict;
--   TQ429 a full queue; 40001 as enqueue.
-- Called by: producers.
create or replace function taskq.enqueue_many(
  p_queue     text,
  p_jobs      jsonb,
  p_skip_wake boolean = false
)
returns table (ordinal int, status text, job_id bigint)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_jobs constant taskq.new_job[] := taskq.parse_jobs(p_jobs);
begin
  if exists (select from unnest(v_jobs) as j where j.unique_key is not null) then
    return query
    select s.ordinal, s.status, s.job_id
    from taskq.store_anew(p_queue collate "default", v_jobs, coalesce(p_skip_wake, false)) s;
  else
    return query
    select s.ordinal, s.status, s.job_id
    from taskq.store_jobs(p_queue collate "default", v_jobs, coalesce(p_skip_wake, false)) s;
  end if;
end
$$;

comment on function taskq.enqueue_many is
  'Enqueue many jobs of one queue in one call: all of them, or none on bad input.';
