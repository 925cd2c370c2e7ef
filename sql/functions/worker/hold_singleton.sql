-- Take the lock of a name for this session, so that only one of those who do runs at a time.
--
-- Lasts until the session ends, so it needs a direct connection: behind a pooler in transaction
-- mode the lock would stay with a server session that others use too. Taking it twice in one
-- session succeeds twice.
--
-- Arguments: p_name, 1 to 255 bytes.
-- Returns: true = it is ours; false = another session has it.
-- Locks: a session-level advisory lock per schema and name, tried.
-- Raises: TQ422 bad input.
-- Called by: workers with a singleton name.
create or replace function taskq.hold_singleton(p_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_name is null or p_name = '' or octet_length(p_name) > 255 then
    raise exception using errcode = 'TQ422', message = 'p_name must be 1 to 255 bytes';
  end if;
  return pg_try_advisory_lock(hashtextextended('taskq.singleton ' || p_name collate "default", 2));
end
$$;

comment on function taskq.hold_singleton is
  'Take the lock of a name for this session, so that only one of those who do runs at a time.';
