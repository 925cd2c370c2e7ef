-- Move jobs that never started, or wait for another attempt, from ready to finished.
--
-- Arguments: p_ids locked by the caller; p_outcome cancelled or expired_ttl; p_reason, cut
--   to 1 KiB.
-- Returns: how many moved.
-- Locks: the ready rows, already the caller's; then the unique_keys rows of the jobs.
-- Raises: nothing.
-- Called by: cancel_job, purge_queue, expire_ttl.
create or replace function taskq.finish_ready(p_ids bigint[], p_outcome text, p_reason text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_now    constant timestamptz := taskq.clock();
  v_reason constant text := taskq.clip(p_reason, 1024);
  v_keys   text[];
  v_count  bigint;
begin
  with gone as (
    delete from taskq.ready r where r.id = any (p_ids) returning r.*
  ),
  freed as (
    delete from taskq.unique_keys u
    where u.ctid = any (array(
      select k.ctid
      from taskq.unique_keys k
      where k.job_id = any (array(select g.id from gone g where g.is_unique))
        and (k.expires_at is null or k.expires_at <= v_now)
      for update skip locked))
  ),
  stored as (
    insert into taskq.finished (
      id, queue, task, status, outcome, reason, finished_at, purge_at, priority, scheduled_at,
      expires_at, concurrency_key, attempt_count, failure_count, expiry_streak, snooze_count,
      progress, is_unique, is_ordered,
      watched)
    select g.id, g.queue, g.task, 'cancelled', p_outcome, v_reason, v_now,
      greatest(k.expires_at,
        taskq.purge_instant('cancelled', q.retention_succeeded, q.retention_cancelled, q.retention_failed, v_now)),
      g.priority, g.scheduled_at, g.expires_at, g.concurrency_key, g.attempt_count,
      g.failure_count, g.expiry_streak, g.snooze_count, g.progress, g.is_unique, g.is_ordered, g.watched
    from gone g
    left join taskq.queues q on q.name = g.queue
    left join lateral (
      select u.expires_at from taskq.unique_keys u
      where u.job_id = case when g.is_unique then g.id end
      limit 1
    ) k on true
  )
  select count(*), array_agg(g.concurrency_key) filter (where g.concurrency_key is not null)
  into v_count, v_keys
  from gone g;
  if v_keys is not null then
    perform taskq.free_keys(v_keys);
  end if;
  return v_count;
end
$$;

comment on function taskq.finish_ready is
  'Move jobs that never started, or wait for another attempt, from ready to finished.';
