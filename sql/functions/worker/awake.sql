-- Strike a worker from the sleepers: it polls by itself now.
--
-- Arguments: p_worker_id.
-- Returns: nothing.
-- Locks: its own sleepers row.
-- Raises: nothing.
-- Called by: workers.
create or replace function taskq.awake(p_worker_id text)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from taskq.sleepers s where s.worker_id = p_worker_id collate "default"
$$;

comment on function taskq.awake is
  'Strike a worker from the sleepers: it polls by itself now.';
