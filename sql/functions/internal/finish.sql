-- Move ended attempts from running to finished, whatever ended them.
--
-- Where nothing but completes is settled, as nearly always, finish_completed does it in one statement.
--
-- Arguments: p_landings as settle_attempts decided; those that go back to the queue are
--   passed over.
-- Returns: nothing.
-- Locks: the running rows, already the caller's; then the unique_keys rows of the jobs.
-- Raises: nothing.
-- Called by: settle_attempts.
create or replace function taskq.finish(p_landings taskq.landing[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  with landing as materialized (
    select l.* from unnest(p_landings) as l where l.status <> 'queued'
  ),
  gone as (
    delete from taskq.running r
    where r.id = any (array(select l.job_id from landing l))
    returning r.*
  ),
  freed as (
    delete from taskq.unique_keys u
    where u.ctid = any (array(
      select k.ctid
      from taskq.unique_keys k
      where k.job_id = any (array(select g.id from gone g where g.is_unique))
        and (k.expires_at is null or k.expires_at <= v_now)
      for update skip locked))
  )
  insert into taskq.finished (
    id, queue, task, status, outcome, result, error, reason, verb, attempt_id, worker_id,
    claimed_at, finished_at, purge_at, priority, scheduled_at, expires_at, concurrency_key,
    attempt_count, failure_count, expiry_streak, snooze_count, progress, is_unique, is_ordered,
    watched)
  select g.id, g.queue, g.task, l.status, l.outcome, l.result, l.error, l.reason, l.verb,
    g.attempt_id, l.worker_id, g.claimed_at, v_now,
    greatest(k.expires_at,
      taskq.purge_instant(l.status, q.retention_succeeded, q.retention_cancelled, q.retention_failed, v_now)),
    g.priority, g.scheduled_at, g.expires_at, g.concurrency_key, g.attempt_count,
    l.failure_count, l.expiry_streak, g.snooze_count, coalesce(l.progress, g.progress),
    g.is_unique, g.is_ordered, g.watched
  from gone g
  join landing l on l.job_id = g.id
  left join taskq.queues q on q.name = g.queue
  left join lateral (
    select u.expires_at from taskq.unique_keys u
    where u.job_id = case when g.is_unique then g.id end
    limit 1
  ) k on true;
end
$$;

comment on function taskq.finish is
  'Move ended attempts from running to finished, whatever ended them.';
