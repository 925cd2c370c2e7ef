-- End queued jobs whose time to live is over: cancelled, with the outcome expired_ttl.
--
-- Also between two attempts; a running job is never touched.
--
-- Arguments: p_limit 1 to 10,000 jobs.
-- Returns: how many ended.
-- Locks: ready rows in order of time, skipping locked ones; one pass at a time, another returns 0.
-- Raises: TQ422 bad input.
-- Called by: workers, housekeep.
create or replace function taskq.expire_ttl(p_limit int = 1000)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := taskq.clock();
  v_ids bigint[];
begin
  if not taskq.start_pass('expire_ttl', p_limit) then
    return 0;
  end if;
  with locked as materialized (
    select r.id
    from taskq.ready r
    where r.expires_at <= v_now
    order by r.expires_at
    limit p_limit
    for update skip locked
  )
  select array_agg(l.id) into v_ids from locked l;
  if v_ids is null then
    return 0;
  end if;
  return taskq.finish_ready(v_ids, 'expired_ttl', 'its time to live was over');
end
$$;

comment on function taskq.expire_ttl is
  'End queued jobs whose time to live is over: cancelled, with the outcome expired_ttl.';
