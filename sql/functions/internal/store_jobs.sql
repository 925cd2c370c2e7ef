-- Store checked requests: the one way into the queue for single and many.
--
-- The queue's policy is stamped on each job here; a later edit of the queue never changes
-- jobs that are already in.
--
-- Arguments: p_queue; p_jobs, null fields = the queue's default; p_skip_wake true = the call
--   is on the client's own autocommit connection and may skip NOTIFY when nobody needs it.
-- Returns: (ordinal from 0, status created | existed, job_id) in input order.
-- Locks: unique_keys by key, see take_keys.
-- Raises: TQ422 bad input; TQ001 a queue without a row where queues are strict; TQ500.
-- Called by: enqueue, enqueue_many.
create or replace function taskq.store_jobs(p_queue text, p_jobs taskq.new_job[], p_skip_wake boolean)
returns table (ordinal int, status text, job_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
as $$
#variable_conflict use_column
declare
  v_now     constant timestamptz := taskq.clock();
  v_queue   taskq.queues;
  v_ids     bigint[];
  v_keys    text[];
  v_holders bigint[];
  v_due     timestamptz;
begin
  perform taskq.check_jobs(p_queue, p_jobs);
  select * into v_queue from taskq.queues q where q.name = p_queue;
  if not found and (select s.strict_queues from taskq.settings s) then
    raise exception using errcode = 'TQ001', message = format('no queue "%s"', p_queue),
      hint = 'Queues are strict here: make it with set_queue first.';
  end if;

  v_ids := array(
    select nextval('taskq.jobs_id_seq') from generate_series(1, cardinality(p_jobs)));
  v_holders := v_ids;
  v_keys := array(select j.unique_key from unnest(p_jobs) as j);
  if array_length(array_remove(v_keys, null), 1) > 0 then
    v_holders := taskq.take_keys(p_queue, v_ids, v_keys);
  end if;

  with request as materialized (
    select t.id, t.task, coalesce(t.payload, '{}') as payload, t.headers,
      coalesce(t.priority, 0) as priority,
      coalesce(t.scheduled_at, v_now + t.delay, v_now) as scheduled_at,
      t.unique_key, t.concurrency_key,
      coalesce(t.max_attempts, v_queue.max_attempts, 5) as max_attempts,
      coalesce(t.backoff, v_queue.backoff, interval '30 s') as backoff,
      coalesce(t.backoff_max, v_queue.backoff_max, interval '1 h') as backoff_max,
      coalesce(t.lease, v_queue.lease, interval '60 s') as lease,
      coalesce(t.ttl, v_queue.ttl) as ttl
    from unnest(v_ids, v_holders, p_jobs) as t (
      id, holder, task, payload, priority, scheduled_at, delay, unique_key, concurrency_key,
      max_attempts, backoff, backoff_max, lease, ttl, headers)
    where t.holder = t.id
  ),
  stored as (
    insert into taskq.jobs (
      id, queue, task, payload, headers, priority, unique_key, concurrency_key, max_attempts,
      backoff, backoff_max, lease, ttl, created_at, enqueued_by)
    select r.id, p_queue, r.task, r.payload, r.headers, r.priority, r.unique_key,
      r.concurrency_key, r.max_attempts, r.backoff, r.backoff_max, r.lease, r.ttl, v_now, session_user
    from request r
  ),
  queued as (
    insert into taskq.ready (
      id, queue, task, priority, scheduled_at, expires_at, concurrency_key, is_unique)
    select r.id, p_queue, r.task, r.priority, r.scheduled_at, r.scheduled_at + r.ttl,
      r.concurrency_key, r.unique_key is not null
    from request r
  )
  select min(r.scheduled_at) into v_due from request r;
  if v_due is not null then
    perform taskq.wake(p_queue, v_due, p_skip_wake);
  end if;

  return query
  select (t.n - 1)::int, case when t.holder = t.id then 'created' else 'existed' end, t.holder
  from unnest(v_ids, v_holders) with ordinality as t (id, holder, n);
end
$$;

comment on function taskq.store_jobs is
  'Store checked requests: the one way into the queue for single and many.';
