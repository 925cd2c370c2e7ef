-- Complete requests with the policy of their queue: what a job is stored with.
--
-- No SET clause, so that it inlines.
--
-- Arguments: p_queue its row, all null where it has none; p_ids and p_jobs of equal length;
--   p_now.
-- Returns: one row per job: ordinal from 1, id, and its columns.
-- Locks: none.
-- Raises: nothing.
-- Called by: store_jobs, store_job, replace_jobs.
create or replace function taskq.stamp_policy(
  p_queue taskq.queues,
  p_ids   bigint[],
  p_jobs  taskq.new_job[],
  p_now   timestamptz
)
returns table (
  ordinal         bigint,
  id              bigint,
  task            text,
  payload         jsonb,
  headers         jsonb,
  priority        int,
  scheduled_at    timestamptz,
  unique_key      text,
  concurrency_key text,
  max_attempts    int,
  backoff         interval,
  backoff_max     interval,
  lease           interval,
  ttl             interval,
  unique_mode     text,
  unique_scope    text,
  unique_for      interval,
  ordered         boolean
)
language sql
stable
as $$
  select t.n, t.id, t.task, coalesce(t.payload, '{}'), t.headers, coalesce(t.priority, 0),
    coalesce(t.scheduled_at, p_now + t.delay, p_now), t.unique_key, t.concurrency_key,
    coalesce(t.max_attempts, (p_queue).max_attempts, 5),
    coalesce(t.backoff, (p_queue).backoff, interval '30 s'),
    coalesce(t.backoff_max, (p_queue).backoff_max, interval '1 h'),
    coalesce(t.lease, (p_queue).lease, interval '60 s'),
    coalesce(t.ttl, (p_queue).ttl),
    coalesce(t.unique_mode, 'keep'), t.unique_scope, t.unique_for,
    coalesce(t.ordered, false)
  from unnest(p_ids, p_jobs) with ordinality as t (
    id, task, payload, priority, scheduled_at, delay, unique_key, concurrency_key, max_attempts,
    backoff, backoff_max, lease, ttl, headers, unique_mode, unique_scope, unique_for, ordered, n)
$$;

comment on function taskq.stamp_policy is
  'Complete requests with the policy of their queue: what a job is stored with.';
