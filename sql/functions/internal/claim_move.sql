-- Move admitted jobs from ready to running under a new fence: the third step of claim.
--
-- Arguments: p_ids locked by the caller; p_worker_id; p_lease overrides the jobs' own, or null.
-- Returns: claimed_job rows: by place of the queue in p_queues, priority, time, id.
-- Locks: the ready rows, already the caller's.
-- Raises: nothing.
-- Called by: claim.
create or replace function taskq.claim_move(
  p_ids       bigint[],
  p_queues    text[],
  p_worker_id text,
  p_lease     interval
)
returns setof taskq.claimed_job
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  return query
  with moved as (
    delete from taskq.ready r where r.id = any (p_ids) returning r.*
  ),
  work as materialized (
    select m.*, j.payload, j.headers, j.max_attempts, j.created_at,
      coalesce(p_lease, j.lease) as lease, nextval('taskq.fence') as attempt_id
    from moved m
    cross join lateral (select * from taskq.jobs where jobs.id = m.id limit 1) j
  ),
  leased as (
    insert into taskq.running (
      id, attempt_id, queue, task, priority, scheduled_at, expires_at, concurrency_key,
      worker_id, claimed_at, lease, lease_expires_at, attempt_count, failure_count,
      expiry_streak, snooze_count, progress, is_unique, is_ordered,
      watched)
    select w.id, w.attempt_id, w.queue, w.task, w.priority, w.scheduled_at, w.expires_at,
      w.concurrency_key, p_worker_id, v_now, w.lease, v_now + w.lease, w.attempt_count + 1,
      w.failure_count, w.expiry_streak, w.snooze_count, w.progress, w.is_unique, w.is_ordered, w.watched
    from work w
  )
  select w.id, w.attempt_id, w.queue, w.task, w.payload, w.headers, w.progress, w.priority,
    w.attempt_count + 1, w.failure_count, w.max_attempts, w.expiry_streak, w.scheduled_at,
    w.created_at, w.lease, v_now + w.lease, w.concurrency_key
  from work w
  order by array_position(p_queues, w.queue), w.priority desc, w.scheduled_at, w.id;
end
$$;

comment on function taskq.claim_move is
  'Move admitted jobs from ready to running under a new fence: the third step of claim.';
