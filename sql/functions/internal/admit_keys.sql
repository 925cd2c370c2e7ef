-- Let through the candidates whose concurrency key has room: the second step of claim.
--
-- Exact without anybody waiting: the key's advisory lock is tried, the running rows are
-- counted in the next statement, whose snapshot is newer than the lock, and the lock is kept
-- until the claim commits. A key that another claim holds is passed over. Rows beyond the
-- room of a key that was counted are put on hold, so that later claims do not walk over them;
-- a signal brings them back. Lock and count in one statement would count too old a state. While
-- somebody changes the limit of a pattern no row is put on hold: the change would not see it.
--
-- Arguments: p_tids, places of the candidates in ready, in claim order, locked by the caller.
-- Returns: those of the admitted in claim order, those without a key among them.
-- Locks: transaction-level advisory locks, tried: the limits' and at most 64 keys'.
-- Raises: nothing.
-- Called by: claim.
create or replace function taskq.admit_keys(p_tids tid[])
returns tid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = on
set enable_sort = on
set plan_cache_mode = auto
as $$
declare
  v_may_hold constant boolean := pg_try_advisory_xact_lock_shared(taskq.limits_lock());
  v_keys     text[];
  v_admitted tid[];
  v_beyond   tid[];
  v_full     text[];
  v_last     bigint;
begin
  with wanted as materialized (
    select r.concurrency_key as key, min(t.n) as place
    from unnest(p_tids) with ordinality as t (tid, n)
    join taskq.ready r on r.ctid = t.tid and r.ctid = any (p_tids)
    where r.concurrency_key is not null
    group by r.concurrency_key
    order by 2
    limit 64
  )
  select array_agg(w.key) into v_keys
  from wanted w
  where pg_try_advisory_xact_lock(taskq.key_lock(w.key));

  with room as materialized (
    select k.key,
      k.max_running - (select count(*) from taskq.running x where x.concurrency_key = k.key) as free
    from taskq.key_limits(v_keys) as k
  ),
  ranked as (
    select t.tid, t.n, r.concurrency_key as key,
      row_number() over (partition by r.concurrency_key order by t.n) as place
    from unnest(p_tids) with ordinality as t (tid, n)
    join taskq.ready r on r.ctid = t.tid and r.ctid = any (p_tids)
  )
  select
    array_agg(c.tid order by c.n) filter (where c.key is null or c.place <= room.free),
    array_agg(c.tid) filter (where c.place > room.free),
    array_agg(distinct c.key) filter (where c.place > room.free)
  into v_admitted, v_beyond, v_full
  from ranked c
  left join room on room.key = c.key;

  if v_may_hold and v_beyond is not null then
    select r.id into v_last from taskq.ready r where r.ctid = p_tids[cardinality(p_tids)];
    update taskq.ready r set hold = 'key' where r.ctid = any (v_beyond);
    if cardinality(v_beyond) = cardinality(p_tids) then
      perform taskq.hold_jam(v_last, v_full);
    end if;
  end if;
  return coalesce(v_admitted, '{}');
end
$$;

comment on function taskq.admit_keys is
  'Let through the candidates whose concurrency key has room: the second step of claim.';
