-- Name the advisory lock of a concurrency key, one per schema and key.
--
-- No SET clause, so that it inlines.
--
-- Arguments: p_key.
-- Returns: bigint, for pg_try_advisory_xact_lock.
-- Locks: none.
-- Raises: nothing.
-- Called by: admit_keys, restore_keys.
create or replace function taskq.key_lock(p_key text)
returns bigint
language sql
immutable
parallel safe
as $$
  select hashtextextended('taskq.' || p_key, 0)
$$;

comment on function taskq.key_lock is
  'Name the advisory lock of a concurrency key, one per schema and key.';
