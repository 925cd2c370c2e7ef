-- Return how many jobs of a concurrency key may run at once.
--
-- Its own limit, else that of the longest pattern that it begins with, else 1. No SET clause,
-- so that it inlines.
--
-- Arguments: p_key.
-- Returns: int.
-- Locks: none.
-- Raises: nothing.
-- Called by: admit_keys, restore_keys.
create or replace function taskq.key_limit(p_key text)
returns int
language sql
stable
parallel safe
as $$
  select coalesce(
    (select l.max_running from taskq.concurrency_limits l where l.key = p_key),
    (select l.max_running
     from taskq.concurrency_limits l
     where right(l.key, 1) = '*' and starts_with(p_key, left(l.key, -1))
     order by length(l.key) desc
     limit 1),
    1)
$$;

comment on function taskq.key_limit is
  'Return how many jobs of a concurrency key may run at once.';
