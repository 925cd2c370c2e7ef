-- Put a jam aside: the rows of full keys that stand together at the head of a queue.
--
-- A claim that met nothing but full keys would meet the next of them, again and again. It looks
-- at up to 10,000 rows behind, no further, whatever they are.
--
-- Arguments: p_last the last candidate of the claim; p_keys the full keys, locked by the caller.
-- Returns: nothing.
-- Locks: ready rows, skipping locked ones.
-- Raises: nothing.
-- Called by: admit_keys.
create or replace function taskq.hold_jam(p_last bigint, p_keys text[])
returns void
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
end
$$;

comment on function taskq.hold_jam is
  'Put a jam aside: the rows of full keys that stand together at the head of a queue.';
