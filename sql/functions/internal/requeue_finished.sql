-- Move ended jobs from finished back to ready: the movement of every redrive.
--
-- The attempt on the finished row is recorded; the budget and the streak start anew; what was
-- claimed, the checkpoint and the priority stay. An ordered job is held first, with a signal
-- beside it: its place among the others of its key is that of its id.
--
-- Arguments: p_ids locked by the caller, whose unique keys are taken already; p_scheduled_at when
--   they are due, the TTL counts from there; p_skip_wake as in wake.
-- Returns: nothing.
-- Locks: the finished rows, already the caller's.
-- Raises: nothing.
-- Called by: redrive.
create or replace function taskq.requeue_finished(
  p_ids          bigint[],
  p_scheduled_at timestamptz,
  p_skip_wake    boolean
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_queues text[];
  v_keys   text[];
begin
  with gone as (
    delete from taskq.finished f where f.id = any (p_ids) returning f.*
  ),
  recorded as (
    insert into taskq.attempts (
      job_id, attempt_id, worker_id, claimed_at, ended_at, verb, status, outcome, error, reason)
    select g.id, g.attempt_id, g.worker_id, g.claimed_at, g.finished_at, g.verb, g.status, g.outcome,
      g.error, g.reason
    from gone g
    where g.attempt_id is not null
  ),
  queued as (
    insert into taskq.ready (
      id, queue, task, priority, scheduled_at, expires_at, concurrency_key, hold, attempt_count,
      failure_count, expiry_streak, snooze_count, progress, is_unique, is_ordered, watched)
    select g.id, g.queue, g.task, g.priority, p_scheduled_at, p_scheduled_at + j.ttl,
      g.concurrency_key, case when g.is_ordered then 'order' end, g.attempt_count, 0, 0,
      g.snooze_count, g.progress, j.unique_key is not null, g.is_ordered, g.watched
    from gone g
    join taskq.jobs j on j.id = g.id
  )
  select array_agg(distinct g.queue), array_agg(distinct g.concurrency_key) filter (where g.is_ordered)
  into v_queues, v_keys
  from gone g;

  insert into taskq.signals (kind, key) select 'key', k.key from unnest(v_keys) as k (key);
  perform taskq.wake(q.queue, p_scheduled_at, p_skip_wake) from unnest(v_queues) as q (queue);
end
$$;

comment on function taskq.requeue_finished is
  'Move ended jobs from finished back to ready: the movement of every redrive.';
