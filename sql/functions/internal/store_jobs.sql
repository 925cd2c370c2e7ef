-- Store requests: the way into the queue for many, and for one that meets others.
--
-- The queue's policy is stamped on each job here; a later edit of the queue never changes
-- jobs that are already in. The depth of a bounded queue is looked at after uniqueness, so that
-- a duplicate is welcome in a full queue; the look sees what is committed, so that callers at
-- once may exceed the bound, each by the jobs of its call. An ordered job is always held first,
-- with a signal beside it, so that only claims decide which one of its key is next.
--
-- Arguments: p_queue; p_jobs, null fields = the queue's default; p_skip_wake true = the call
--   is on the client's own autocommit connection and may skip NOTIFY when nobody needs it.
-- Returns: (ordinal from 0, status created | existed | replaced | running, job_id) in input order.
-- Locks: the order locks of ordered keys, waits; then unique_keys rows by key and ready rows of
--   holders by id, see take_keys and replace_jobs.
-- Raises: TQ422 bad input; TQ001 a queue without a row where queues are strict; TQ429 a full
--   queue; TQ500; TQ100 to be called again, after a rollback to before it, see take_keys.
-- Called by: enqueue, enqueue_many, store_anew, store_job.
create or replace function taskq.store_jobs(
  p_queue     text,
  p_jobs      taskq.new_job[],
  p_skip_wake boolean
)
returns table (ordinal int, status text, job_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
as $$
#variable_conflict use_column
declare
  v_now      constant timestamptz := taskq.clock();
  v_queue    taskq.queues;
  v_named    boolean;
  v_keys     text[];
  v_ids      bigint[];
  v_holders  bigint[];
  v_statuses text[];
  v_places   int[];
  v_place    int;
  v_status   text;
  v_depth    bigint;
  v_new      bigint;
  v_due      timestamptz;
begin
  perform taskq.check_jobs(p_queue, p_jobs);
  v_queue := taskq.queue_policy(p_queue);

  select bool_or(j.unique_key is not null), array_agg(distinct j.concurrency_key) filter (where j.ordered)
  into v_named, v_keys
  from unnest(p_jobs) as j;
  if v_keys is not null then
    -- the ids of ordered jobs are drawn in the order in which their transactions will commit;
    -- a default server has room for 13,000 advisory locks of all its sessions
    if cardinality(v_keys) > 256 then
      raise exception using errcode = 'TQ422',
        message = format('%s ordered keys in one call are over the cap of 256', cardinality(v_keys)),
        hint = 'Split the list; TaskQ.enqueue_many does.';
    end if;
    perform pg_advisory_xact_lock(k.lock)
    from (select taskq.order_lock(u.key) as lock from unnest(v_keys) as u (key) order by 1) k;
  end if;
  v_ids := array(
    select nextval('taskq.jobs_id_seq') from generate_series(1, cardinality(p_jobs)));
  v_holders := v_ids;
  if v_named then
    v_holders := taskq.take_keys(p_queue, v_ids, p_jobs);
  end if;

  if v_queue.max_depth is not null and v_holders && v_ids then
    v_new := (select count(*) from unnest(v_ids, v_holders) as t (id, holder) where t.id = t.holder);
    v_depth := taskq.depth(p_queue, v_queue.max_depth + 1);
    if v_depth + v_new > v_queue.max_depth then
      raise exception using errcode = 'TQ429',
        message = case
          when v_depth < v_queue.max_depth
            then format('queue "%s" has no room for %s more jobs: %s wait, its max_depth is %s',
              p_queue, v_new, v_depth, v_queue.max_depth)
          else format('queue "%s" is full: %s jobs wait, its max_depth is %s', p_queue,
            least(v_depth, v_queue.max_depth) || case when v_depth > v_queue.max_depth then ' or more' else '' end,
            v_queue.max_depth)
        end,
        detail = format('depth %s', v_depth),
        hint = case
          when v_new > v_queue.max_depth
            then 'It never has: bring fewer jobs in one call, or raise max_depth with set_queue.'
          else 'Wait until workers have caught up, or raise max_depth with set_queue.'
        end;
    end if;
  end if;

  with request as materialized (
    select s.* from taskq.stamp_policy(v_queue, v_ids, p_jobs, v_now) s
    where v_holders[s.ordinal] = s.id
  ),
  stored as (
    insert into taskq.jobs (
      id, queue, task, payload, headers, priority, unique_key, unique_scope, concurrency_key,
      max_attempts, backoff, backoff_max, lease, ttl, created_at, enqueued_by)
    select r.id, p_queue, r.task, r.payload, r.headers, r.priority, r.unique_key,
      r.unique_scope, r.concurrency_key, r.max_attempts, r.backoff, r.backoff_max, r.lease, r.ttl, v_now, session_user
    from request r
  ),
  queued as (
    insert into taskq.ready (
      id, queue, task, priority, scheduled_at, expires_at, concurrency_key, hold, is_unique,
      is_ordered)
    select r.id, p_queue, r.task, r.priority, r.scheduled_at, r.scheduled_at + r.ttl,
      r.concurrency_key, case when r.ordered then 'order' end, r.unique_key is not null, r.ordered
    from request r
  )
  select min(r.scheduled_at) into v_due from request r;
  if v_keys is not null then
    insert into taskq.signals (kind, key) select 'key', k.key from unnest(v_keys) as k (key);
  end if;
  if v_due is not null then
    perform taskq.wake(p_queue, v_due, p_skip_wake);
  elsif v_named and not p_skip_wake and exists (select from unnest(p_jobs) as j where j.unique_scope = 'waiting') then
    -- claims pass over the job that waits until this transaction ends; then they are to look again
    perform taskq.wake(p_queue, v_now, false);
  end if;

  if v_holders = v_ids then
    return query
    select (t.n - 1)::int, 'created', t.id from unnest(v_ids) with ordinality as t (id, n);
    return;
  end if;

  v_statuses := array(
    select case when t.holder = t.id then 'created' else 'existed' end
    from unnest(v_ids, v_holders) with ordinality as t (id, holder, n)
    order by t.n);
  v_places := array(
    select j.n
    from unnest(p_jobs) with ordinality as j (
      task, payload, priority, scheduled_at, delay, unique_key, concurrency_key, max_attempts,
      backoff, backoff_max, lease, ttl, headers, unique_mode, unique_scope, unique_for, ordered, n)
    where j.unique_mode like 'replace%' and v_holders[j.n] <> v_ids[j.n]
    order by j.n);
  for v_place, v_status in
    select t.place, t.status
    from unnest(v_places, taskq.replace_jobs(
      v_queue,
      array(select v_holders[place] from unnest(v_places) as place),
      array(select p_jobs[place] from unnest(v_places) as place),
      p_skip_wake)) as t (place, status)
  loop
    if v_status is null then
      raise exception using errcode = 'TQ100', message = 'a unique key changed hands: call again';
    end if;
    v_statuses[v_place] := v_status;
  end loop;

  return query
  select (t.n - 1)::int, t.status, t.holder
  from unnest(v_statuses, v_holders) with ordinality as t (status, holder, n);
end
$$;

comment on function taskq.store_jobs is
  'Store requests: the way into the queue for many, and for one that meets others.';
