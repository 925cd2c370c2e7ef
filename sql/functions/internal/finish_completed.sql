-- Move attempts that are done from running to finished, in one statement.
--
-- The movement that nearly every job ends with, and the only one whose landing is known before
-- the row is read: the work is done, also of a job that was asked to cancel. An item stays
-- behind when its result is too large, when it is a second one for its attempt, or when the
-- fence does not hold.
--
-- Server CPU for each job of a settle in batches of 1, 10, 100 and 500, as a multiple of one update
-- of a narrow row: 12, 9, 5 and 4 by settle_attempts; 4, 3, 2.4 and 2.9 by this way, with the reading
-- of the document. One statement for all verbs takes 1.5 to 1.7 times as long as one for completes. A
-- plan made anew in each call: twice as much in batches of 1 and 10. The rows are reached by `= any` and a
-- hash join: a nested loop from the items is as fast, but where it is planned while few jobs run
-- it begins at the running rows and compares each with each.
--
-- Arguments: p_worker_id recorded, null = who claimed it; p_job_ids and p_attempt_ids of one
--   length; p_results as long, null for no result, or empty.
-- Returns: one row: landed, the ordinals of the moved items from 1, and keys, their concurrency
--   keys; null for none.
-- Locks: running rows by id, waits; then unique_keys, skipping locked ones.
-- Raises: nothing.
-- Called by: complete_attempts.
create or replace function taskq.finish_completed(
  p_worker_id   text,
  p_job_ids     bigint[],
  p_attempt_ids bigint[],
  p_results     jsonb[],
  out landed    bigint[],
  out keys      text[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set work_mem = '64MB'  -- a hash join in several batches would reach the rows in another order
set enable_nestloop = off
set enable_mergejoin = off
set enable_bitmapscan = off  -- so that rows are reached in the order of id
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  with item as materialized (
    -- without the result, which makes the join no larger than it has to be
    select distinct on (i.job_id, i.attempt_id) i.job_id, i.attempt_id, i.ordinal
    from unnest(p_job_ids, p_attempt_ids, p_results) with ordinality as i (
      job_id, attempt_id, result, ordinal)
    where i.result is null or octet_length(i.result::text) <= 8192
    order by i.job_id, i.attempt_id, i.ordinal
  ),
  gone as (
    -- first what the parts below ask for most often: a row is read up to its last wanted column
    delete from taskq.running r
    using item i
    where r.id = any (p_job_ids) and r.id = i.job_id and r.attempt_id = i.attempt_id
    returning i.ordinal, r.concurrency_key, r.queue, r.is_unique, r.id, r.task, r.attempt_id,
      r.worker_id, r.claimed_at, r.priority, r.scheduled_at, r.expires_at, r.attempt_count,
      r.failure_count, r.snooze_count, r.progress, r.is_ordered, r.watched
  ),
  policy as materialized (
    select q.name, q.retention_succeeded
    from taskq.queues q
    where q.name = any (array(select distinct g.queue from gone g))
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
  ended as (
    insert into taskq.finished (
      id, queue, task, status, outcome, result, verb, attempt_id, worker_id, claimed_at,
      finished_at, purge_at, priority, scheduled_at, expires_at, concurrency_key, attempt_count,
      failure_count, expiry_streak, snooze_count, progress, is_unique, is_ordered, watched)
    select g.id, g.queue, g.task, 'succeeded', 'success', p_results[g.ordinal::int], 'complete', g.attempt_id,
      coalesce(p_worker_id, g.worker_id), g.claimed_at, v_now,
      greatest(
        case when g.is_unique then (
          select u.expires_at from taskq.unique_keys u where u.job_id = g.id
        ) end,
        taskq.purge_instant(
          'succeeded', (select p.retention_succeeded from policy p where p.name = g.queue),
          null, null, v_now)),
      g.priority, g.scheduled_at, g.expires_at, g.concurrency_key, g.attempt_count,
      g.failure_count, 0, g.snooze_count, g.progress, g.is_unique, g.is_ordered, g.watched
    from gone g
  )
  select array_agg(g.ordinal), array_agg(g.concurrency_key) filter (where g.concurrency_key is not null)
  into landed, keys
  from gone g;
end
$$;

comment on function taskq.finish_completed is
  'Move attempts that are done from running to finished, in one statement.';
