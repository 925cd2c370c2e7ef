-- Bring back the held jobs of keys that may have room again: the best, or of ordered ones the next.
--
-- In this order, each a statement of its own: try the key's lock, delete its signals, let the
-- oldest ordered job go if none before it is live, count what runs, bring back as many rows as
-- there is room, in each queue, since another queue may be paused. A signal that commits after the
-- delete stays for the next claim; any other order loses wake-ups. A held row that somebody has
-- locked leaves a signal behind: its transaction may roll back. Those whose time to live is over
-- are put aside, and do not come back.
--
-- Arguments: none.
-- Returns: nothing.
-- Locks: transaction-level advisory locks, tried, at most 64 keys; held ready rows, skipping
--   locked ones.
-- Raises: nothing.
-- Called by: claim_candidates, when there are signals.
create or replace function taskq.restore_keys()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = on
set enable_sort = on
set plan_cache_mode = auto
as $$
declare
  v_keys  text[];
  v_key   text;
  v_free  bigint;
  v_next  bigint;
  v_queue text;
  v_count bigint;
begin
  -- from key to key through the index; the limit counts what was locked, so that keys which an
  -- open claim keeps, and many signals of one, do not hide the others
  with recursive signalled (key) as (
    (select s.key from taskq.signals s where s.kind = 'key' order by s.key limit 1)
    union all
    select (select s.key from taskq.signals s where s.kind = 'key' and s.key > d.key order by s.key limit 1)
    from signalled d
    where d.key is not null
  ),
  locked as materialized (
    select d.key
    from signalled d
    where d.key is not null and pg_try_advisory_xact_lock(taskq.key_lock(d.key))
    limit 64
  )
  select array_agg(l.key) into v_keys
  from locked l;
  if v_keys is null then
    return;
  end if;

  delete from taskq.signals s where s.kind = 'key' and s.key = any (v_keys);

  select array_agg(k.key) into v_keys
  from unnest(v_keys) as k (key)
  where (select true from taskq.ready r where r.hold = 'key' and r.concurrency_key = k.key limit 1)
    or (select true from taskq.ready r where r.hold = 'order' and r.concurrency_key = k.key limit 1);
  if v_keys is null then
    return;
  end if;

  foreach v_key in array v_keys loop
    select r.id into v_next
    from taskq.ready r
    where r.hold = 'order' and r.concurrency_key = v_key
    order by r.id
    limit 1;
    if found
      and not exists (select from taskq.running x where x.concurrency_key = v_key and x.is_ordered)
      and not exists (
        select from taskq.ready r
        where r.concurrency_key = v_key and r.is_ordered and r.hold is distinct from 'order')
    then
      update taskq.ready r set hold = null
      where r.id = (select h.id from taskq.ready h where h.id = v_next for update skip locked);
      if not found then  -- whoever ends it leaves a signal; if that is rolled back, nobody would
        insert into taskq.signals (kind, key) values ('key', v_key);
      end if;
    end if;

    select k.max_running - (select count(*) from taskq.running x where x.concurrency_key = k.key)
    into v_free
    from taskq.key_limits(array[v_key]) as k;
    continue when v_free <= 0;

    v_queue := '';
    loop
      select r.queue into v_queue
      from taskq.ready r
      where r.hold = 'key' and r.concurrency_key = v_key and r.queue > v_queue
      order by r.queue
      limit 1;
      exit when not found;

      perform taskq.hold_expired(v_key, v_queue);
      update taskq.ready r set hold = null
      where r.id = any (array(
        select h.id from taskq.ready h
        where h.hold = 'key' and h.concurrency_key = v_key and h.queue = v_queue
        order by h.priority desc, h.scheduled_at, h.id
        limit v_free
        for update skip locked));
      get diagnostics v_count = row_count;
      if v_count < v_free and exists (
        select from taskq.ready h
        where h.hold = 'key' and h.concurrency_key = v_key and h.queue = v_queue
      ) then
        insert into taskq.signals (kind, key) values ('key', v_key);
      end if;
    end loop;
  end loop;
end
$$;

comment on function taskq.restore_keys is
  'Bring back the held jobs of keys that may have room again: the best, or of ordered ones the next.';
