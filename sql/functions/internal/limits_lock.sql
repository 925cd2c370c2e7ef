-- Name the advisory lock between claims that put jobs on hold and a change of the limit of a pattern.
--
-- No SET clause, so that it inlines.
--
-- Arguments: none.
-- Returns: bigint: claims try it shared, set_concurrency_limit waits for it alone.
-- Locks: none.
-- Raises: nothing.
-- Called by: admit_keys, set_concurrency_limit.
create or replace function taskq.limits_lock()
returns bigint
language sql
immutable
parallel safe
as $$
  select hashtextextended('taskq.limits', 3)
$$;

comment on function taskq.limits_lock is
  'Name the advisory lock between claims that put jobs on hold and a change of the limit of a pattern.';
