-- Move ended attempts from running back to ready: the movement of every settle that goes on.
--
-- The attempt is recorded, but for a prefetched job handed back unstarted. A unique key that
-- the start had set free is taken back, unless somebody has it or is about to: the job is then
-- queued without it.
--
-- Arguments: p_landings as settle_attempts decided; those that end the job are passed over;
--   p_skip_wake as in wake.
-- Returns: nothing.
-- Locks: the running rows, already the caller's; then free unique_keys rows, skipping locked ones.
-- Raises: nothing.
-- Called by: settle_attempts.
create or replace function taskq.requeue(p_landings taskq.landing[], p_skip_wake boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  with landing as materialized (
    select l.* from unnest(p_landings) as l where l.status = 'queued'
  ),
  gone as (
    delete from taskq.running r
    where r.id = any (array(select l.job_id from landing l))
    returning r.*
  ),
  recorded as (
    insert into taskq.attempts (
      job_id, attempt_id, worker_id, claimed_at, ended_at, verb, status, scheduled_at, error, reason)
    select g.id, g.attempt_id, l.worker_id, g.claimed_at, v_now, l.verb, l.status,
      l.scheduled_at, l.error, l.reason
    from gone g
    join landing l on l.job_id = g.id
    where not (l.verb = 'release' and l.reason is not distinct from 'not_started')
  ),
  keyed as materialized (
    select array(select g.id from gone g where g.is_unique) as ids
  ),
  taken_back as (
    update taskq.unique_keys u set free = false
    where u.ctid = any (array(
      select k.ctid
      from taskq.unique_keys k
      where k.job_id = any ((select keyed.ids from keyed)::bigint[]) and k.free
      for update skip locked))
    returning u.job_id
  ),
  held as (
    select u.job_id
    from taskq.unique_keys u
    where u.job_id = any ((select keyed.ids from keyed)::bigint[]) and not u.free
    union all
    select t.job_id from taken_back t
  )
  insert into taskq.ready (
    id, queue, task, priority, scheduled_at, expires_at, concurrency_key, attempt_count,
    failure_count, expiry_streak, snooze_count, progress, is_unique, is_ordered,
    watched)
  select g.id, g.queue, g.task, g.priority, l.scheduled_at, g.expires_at, g.concurrency_key,
    g.attempt_count, l.failure_count, l.expiry_streak,
    g.snooze_count + case when l.verb = 'snooze' then 1 else 0 end,
    coalesce(l.progress, g.progress), g.is_unique and g.id in (select h.job_id from held h), g.is_ordered,
    g.watched
  from gone g
  join landing l on l.job_id = g.id;

  perform taskq.wake(due.queue, due.scheduled_at, p_skip_wake)
  from (
    select l.queue, min(l.scheduled_at) as scheduled_at
    from unnest(p_landings) as l
    where l.status = 'queued'
    group by l.queue
  ) due;
end
$$;

comment on function taskq.requeue is
  'Move ended attempts from running back to ready: the movement of every settle that goes on.';
