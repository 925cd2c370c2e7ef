-- Tell which version of the schema is installed, and the oldest client it serves.
--
-- Arguments: none.
-- Returns: version, min_client: a client below min_client refuses to start.
-- Locks: none.
-- Raises: nothing.
-- Called by: clients.
create or replace function taskq.schema_version(out version text, out min_client text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.version, s.min_client from taskq.settings s
$$;

comment on function taskq.schema_version is
  'Tell which version of the schema is installed, and the oldest client it serves.';
