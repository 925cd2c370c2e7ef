-- Rewrite queued jobs by newer requests for their unique keys.
--
-- The job keeps its id, its attempts and created_at, an ordered one its key and its place too;
-- its budget starts anew, and a checkpoint of the older request is gone. Of several requests for
-- one job the last counts. It is no longer on hold: the next claim looks at the key it has now.
-- One that claims could see and that is put off, or gets another key, leaves a signal: it may be
-- the only one of its key that was brought back, and others on hold would wait for it. take_keys
-- has locked the jobs it saw; one that has come back since is taken only where nobody has to be
-- waited for.
--
-- Arguments: p_queue the queue's row, its name always there; p_holders the jobs to rewrite;
--   p_jobs the requests, of equal length; p_skip_wake as in wake.
-- Returns: text[] of equal length: `replaced`, `running` (it has been started and is unchanged),
--   `existed` (it has ended and holds its key on), or null: somebody is moving it right now.
-- Locks: ready rows, the caller's already, or skipping locked ones; then their unique_keys rows.
-- Raises: 40001 in a caller's repeatable read or serializable transaction.
-- Called by: store_jobs.
create or replace function taskq.replace_jobs(
  p_queue     taskq.queues,
  p_holders   bigint[],
  p_jobs      taskq.new_job[],
  p_skip_wake boolean
)
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_now      constant timestamptz := taskq.clock();
  v_replaced bigint[];
  v_keys     text[];
  v_due      timestamptz;
begin
  with locked as materialized (
    select r.id, r.scheduled_at, r.concurrency_key, r.hold, r.is_ordered
    from taskq.ready r
    where r.id = any (p_holders) and r.is_unique
    order by r.id
    for update skip locked
  ),
  request as materialized (
    select distinct on (s.id) s.*, l.concurrency_key as old_key,
      case when l.is_ordered then l.concurrency_key else s.concurrency_key end as new_key,
      case when l.is_ordered and l.hold = 'order' then l.hold end as hold,
      l.hold is null as was_free,
      case when s.unique_mode = 'replace_keep_schedule' then l.scheduled_at else s.scheduled_at end as due_at
    from taskq.stamp_policy(p_queue, p_holders, p_jobs, v_now) s
    join locked l on l.id = s.id
    order by s.id, s.ordinal desc
  ),
  rewritten as (
    update taskq.jobs j
    set task = q.task, payload = q.payload, headers = q.headers, priority = q.priority,
      unique_scope = q.unique_scope, concurrency_key = q.new_key, max_attempts = q.max_attempts, backoff = q.backoff,
      backoff_max = q.backoff_max, lease = q.lease, ttl = q.ttl
    from request q
    where j.id = q.id and j.id = any (p_holders)
  ),
  queued as (
    update taskq.ready r
    set task = q.task, priority = q.priority, scheduled_at = q.due_at, expires_at = q.due_at + q.ttl,
      concurrency_key = q.new_key, hold = q.hold, failure_count = 0, progress = null
    from request q
    where r.id = q.id and r.id = any (p_holders)
  ),
  keyed as (
    update taskq.unique_keys u
    set waiting = q.unique_scope is not distinct from 'waiting',
      expires_at = greatest(u.expires_at, v_now + q.unique_for)
    from request q
    where u.job_id = q.id and u.job_id = any (p_holders)
  )
  select array_agg(q.id), min(q.due_at),
    array_agg(q.old_key) filter (
      where q.was_free and q.old_key is not null and (q.old_key is distinct from q.new_key or q.due_at > v_now))
  into v_replaced, v_due, v_keys
  from request q;

  if v_due is not null then
    perform taskq.wake(p_queue.name, v_due, p_skip_wake);
  end if;
  if v_keys is not null then
    perform taskq.free_keys(v_keys);
  end if;

  return array(
    select case
      when h.id = any (v_replaced) then 'replaced'
      when (select not u.free or u.expires_at > v_now from taskq.unique_keys u where u.job_id = h.id) then
        case  -- no `exists`, which would scan the table once it is large
          when (select true from taskq.running r where r.id = h.id) then 'running'
          when (select true from taskq.finished f where f.id = h.id) then 'existed'
        end
    end
    from unnest(p_holders) with ordinality as h (id, n)
    order by h.n);
end
$$;

comment on function taskq.replace_jobs is
  'Rewrite queued jobs by newer requests for their unique keys.';
