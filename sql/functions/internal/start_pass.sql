-- Begin a housekeeping pass: check its limit, and let only one of its kind run at a time.
--
-- Arguments: p_name of the pass; p_limit 1 to 10,000.
-- Returns: true = go on; false = another session runs this pass now.
-- Locks: a transaction-level advisory lock per schema and pass, tried.
-- Raises: TQ422 a limit out of bounds.
-- Called by: take_back, expire_ttl, prune, age.
create or replace function taskq.start_pass(p_name text, p_limit int)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_limit is null or p_limit not between 1 and 10000 then
    raise exception using errcode = 'TQ422',
      message = format('p_limit %s of %s is outside 1 to 10000', coalesce(p_limit::text, 'null'), p_name);
  end if;
  return pg_try_advisory_xact_lock(hashtextextended('taskq.' || p_name, 1));
end
$$;

comment on function taskq.start_pass is
  'Begin a housekeeping pass: check its limit, and let only one of its kind run at a time.';
