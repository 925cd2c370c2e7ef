-- Take unique keys whose rows count no longer, each looked at again under its lock.
--
-- A job that was started may be back with its key, one that had ended may be redriven, and a row
-- may have become that of another live job, whose time is over by this clock. Then nothing may be
-- kept: whoever starts or replaces that job must not meet the lock.
--
-- Arguments: p_rows what the rows of unique_keys are to become, in order of key; p_ended of equal
--   length: the holder of each, null where a start set the row free.
-- Returns: nothing.
-- Locks: the unique_keys rows in the given order, waits.
-- Raises: TQ100 where one counts again: the caller rolls back what this call has locked; 40001 in a
--   caller's repeatable read or serializable transaction.
-- Called by: take_keys.
create or replace function taskq.take_over_keys(p_rows taskq.unique_keys[], p_ended bigint[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan  -- planning costs more than running, and there is one good plan
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  for v_place in 1 .. cardinality(p_rows) loop
    update taskq.unique_keys u
    set job_id = p_rows[v_place].job_id, waiting = p_rows[v_place].waiting, free = false,
      expires_at = p_rows[v_place].expires_at
    where u.queue = p_rows[v_place].queue and u.key = p_rows[v_place].key
      and (u.free or u.job_id = p_ended[v_place]) and (u.expires_at is null or u.expires_at <= v_now);
    if not found
      or (select true from taskq.ready r where r.id = p_ended[v_place])
      or (select true from taskq.running r where r.id = p_ended[v_place])
    then
      raise exception using errcode = 'TQ100', message = 'a unique key changed hands: call again';
    end if;
  end loop;
end
$$;

comment on function taskq.take_over_keys is
  'Take unique keys whose rows count no longer, each looked at again under its lock.';
