-- Store one request that meets no other job: without a unique key, and not ordered.
--
-- What store_jobs does for such a request, without its passes over arrays. Server CPU of an
-- enqueue as a multiple of one insert into both tables: 5.5 by store_jobs, 3.2 by this: 1.1 for
-- the insert, 0.3 for the checks, the rest for the call and its 19 arguments, the policy and the
-- look for sleepers. Two inserts of values cost as much as the one below.
--
-- Arguments: as store_jobs, of one request.
-- Returns: the id of the job.
-- Locks: none that anybody waits for.
-- Raises: as store_jobs.
-- Called by: enqueue.
create or replace function taskq.store_job(
  p_queue     text,
  p_job       taskq.new_job,
  p_skip_wake boolean
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
as $$
declare
  v_now   constant timestamptz := taskq.clock();
  v_queue taskq.queues;
  v_id    bigint;
  v_due   timestamptz;
begin
  if taskq.queue_fault(p_queue) is not null or taskq.job_fault(p_job) is not null then
    perform taskq.check_jobs(p_queue, array[p_job]);
  end if;
  v_queue := taskq.queue_policy(p_queue);
  if v_queue.max_depth is not null then
    return (select s.job_id from taskq.store_jobs(p_queue, array[p_job], p_skip_wake) s);
  end if;

  v_id := nextval('taskq.jobs_id_seq');
  with request as materialized (
    select s.* from taskq.stamp_policy(v_queue, array[v_id], array[p_job], v_now) s
  ),
  stored as (
    insert into taskq.jobs (
      id, queue, task, payload, headers, priority, concurrency_key, max_attempts, backoff,
      backoff_max, lease, ttl, created_at, enqueued_by)
    select r.id, p_queue, r.task, r.payload, r.headers, r.priority, r.concurrency_key,
      r.max_attempts, r.backoff, r.backoff_max, r.lease, r.ttl, v_now, session_user
    from request r
  )
  insert into taskq.ready (
    id, queue, task, priority, scheduled_at, expires_at, concurrency_key)
  select r.id, p_queue, r.task, r.priority, r.scheduled_at, r.scheduled_at + r.ttl, r.concurrency_key
  from request r
  returning scheduled_at into v_due;
  perform taskq.wake(p_queue, v_due, p_skip_wake);
  return v_id;
end
$$;

comment on function taskq.store_job is
  'Store one request that meets no other job: without a unique key, and not ordered.';
