-- Note that a slot of these concurrency keys may be free, and wake who waits for one.
--
-- Always appends, also when no row is on hold: a claim that is putting rows on hold right
-- now has not committed yet, and would be missed. Sleepers are asked about their queues
-- rather than the held rows about theirs: a full key may have a million of them.
--
-- Arguments: p_keys, null entries are passed over.
-- Returns: nothing.
-- Locks: none that anybody waits for.
-- Raises: nothing.
-- Called by: settle_attempts, finish_ready, replace_jobs, hold_over, set_concurrency_limit.
create or replace function taskq.free_keys(p_keys text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
begin
  insert into taskq.signals (kind, key)
  select distinct 'key', k.key
  from unnest(p_keys) as k (key)
  where k.key is not null;

  perform pg_notify('taskq.wake', served.queue)
  from (
    select distinct q.name as queue
    from taskq.sleepers s, unnest(s.queues) as q (name)
    where s.wakes_at > taskq.clock()
  ) served
  where exists (
    select from unnest(p_keys) as k (key)
    where (
      select true from taskq.ready r
      where r.hold = 'key' and r.concurrency_key = k.key and r.queue = served.queue
      order by r.priority desc, r.scheduled_at, r.id  -- the index, and no other
      limit 1
    )
    or (
      select r.queue from taskq.ready r
      where r.hold = 'order' and r.concurrency_key = k.key
      order by r.id
      limit 1
    ) = served.queue
  );
end
$$;

comment on function taskq.free_keys is
  'Note that a slot of these concurrency keys may be free, and wake who waits for one.';
