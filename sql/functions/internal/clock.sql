-- Tell the time of the running statement: the only clock of the schema.
--
-- Delays, leases and TTL count from the statement, not from the start of a caller's
-- transaction. A test kit replaces this one body. No SET clause, so that it inlines.
--
-- Arguments: none.
-- Returns: timestamptz.
-- Locks: none.
-- Raises: nothing.
-- Called by: every function that needs the time; workers, for the instant they will wake.
create or replace function taskq.clock()
returns timestamptz
language sql
stable
parallel safe
as $$
  select pg_catalog.statement_timestamp()
$$;

comment on function taskq.clock is
  'Tell the time of the running statement: the only clock of the schema.';
