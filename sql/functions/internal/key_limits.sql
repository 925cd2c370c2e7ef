-- Return how many jobs of each concurrency key may run at once.
--
-- Its own limit, else that of the longest pattern that it begins with, else 1. No SET clause,
-- so that it inlines.
--
-- Arguments: p_keys.
-- Returns: key, max_running.
-- Locks: none.
-- Raises: nothing.
-- Called by: admit_keys, restore_keys, set_concurrency_limit.
create or replace function taskq.key_limits(p_keys text[])
returns table (key text, max_running int)
language sql
stable
as $$
  select k.key, coalesce(
    (select l.max_running from taskq.concurrency_limits l where l.key = k.key),
    (select l.max_running
     from taskq.concurrency_limits l
     where right(l.key, 1) = '*' and starts_with(k.key, left(l.key, -1))
     order by length(l.key) desc
     limit 1),
    1)
  from unnest(p_keys) as k (key)
$$;

comment on function taskq.key_limits is
  'Return how many jobs of each concurrency key may run at once.';
