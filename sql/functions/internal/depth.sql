-- Count the jobs that wait in a queue, due or not, up to a bound.
--
-- Arguments: p_queue; p_bound: no more than so many index entries are visited.
-- Returns: the number, or p_bound when there are at least as many.
-- Locks: none.
-- Raises: nothing.
-- Called by: store_jobs.
create or replace function taskq.depth(p_queue text, p_bound int)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_depth bigint;
begin
  select count(*) into v_depth
  from (
    (select from taskq.ready r where r.queue = p_queue and r.hold is null limit p_bound)
    union all
    (select from taskq.ready r where r.queue collate "C" = p_queue and (r.hold is null) is false limit p_bound)
    limit p_bound
  ) waiting;
  return v_depth;
end
$$;

comment on function taskq.depth is
  'Count the jobs that wait in a queue, due or not, up to a bound.';
