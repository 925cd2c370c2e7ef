-- Name the advisory lock of those who enqueue ordered jobs of a concurrency key.
--
-- Another one than key_lock: a producer's transaction that stays open must not keep the jobs
-- that are in from running.
--
-- No SET clause, so that it inlines.
--
-- Arguments: p_key.
-- Returns: bigint, for pg_advisory_xact_lock.
-- Locks: none.
-- Raises: nothing.
-- Called by: store_jobs.
create or replace function taskq.order_lock(p_key text)
returns bigint
language sql
immutable
parallel safe
as $$
  select hashtextextended('taskq.' || p_key, 4)
$$;

comment on function taskq.order_lock is
  'Name the advisory lock of those who enqueue ordered jobs of a concurrency key.';
