-- Put a jam aside: rows that nobody may claim and that stand together at the head of a queue.
--
-- A claim that met nothing else would meet the next of them, again and again. It looks at up to
-- 10,000 rows behind, no further, whatever they are. Rows of full keys come back by a signal; those
-- whose time to live is over wait for expire_ttl, which ends them.
--
-- Arguments: p_last the last candidate of the claim; p_keys the full keys, locked by the caller,
--   null = rows whose time to live is over, of any key or none.
-- Returns: the keys of what was put aside, without p_keys.
-- Locks: ready rows, skipping locked ones.
-- Raises: nothing.
-- Called by: admit_keys, hold_over.
create or replace function taskq.hold_jam(p_last bigint, p_keys text[])
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_now  constant timestamptz := taskq.clock();
  v_last taskq.ready;
  v_end  taskq.ready;
  v_over text[];
begin
  select r.* into v_last from taskq.ready r where r.id = p_last;
  select h.scheduled_at, h.id into v_end.scheduled_at, v_end.id
  from (
    select r.scheduled_at, r.id
    from taskq.ready r
    where r.queue = v_last.queue and r.hold is null and r.priority = v_last.priority
      and (r.scheduled_at, r.id) >= (v_last.scheduled_at, v_last.id) and r.scheduled_at <= v_now
    order by r.scheduled_at, r.id
    limit 10000
  ) h
  order by h.scheduled_at desc, h.id desc
  limit 1;

  if p_keys is null then
    with over as (
      update taskq.ready r set hold = 'expired'
      where r.id = any (array(
        select h.id
        from taskq.ready h
        where h.queue = v_last.queue and h.hold is null and h.priority = v_last.priority
          and (h.scheduled_at, h.id) >= (v_last.scheduled_at, v_last.id)
          and (h.scheduled_at, h.id) <= (v_end.scheduled_at, v_end.id)
          and h.expires_at <= v_now
        order by h.scheduled_at, h.id
        limit 10000
        for update skip locked))
      returning r.concurrency_key
    )
    select array_agg(distinct o.concurrency_key) into v_over
    from over o
    where o.concurrency_key is not null;
    return v_over;
  end if;

  update taskq.ready r set hold = 'key'
  where r.id = any (array(
    select h.id
    from taskq.ready h
    where h.queue = v_last.queue and h.hold is null and h.priority = v_last.priority
      and (h.scheduled_at, h.id) >= (v_last.scheduled_at, v_last.id)
      and (h.scheduled_at, h.id) <= (v_end.scheduled_at, v_end.id)
      and h.concurrency_key = any (p_keys)
    order by h.scheduled_at, h.id
    limit 10000
    for update skip locked));
  return null;
end
$$;

comment on function taskq.hold_jam is
  'Put a jam aside: rows that nobody may claim and that stand together at the head of a queue.';
