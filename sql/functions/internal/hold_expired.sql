-- Put aside the jobs of a key that were held up until their time to live was over.
--
-- Only where the best held row of the queue is such a job: each that came back would cost a claim,
-- and a slot of the key would be empty meanwhile. It looks at the first 10,000 rows, no further.
-- expire_ttl ends what was put aside.
--
-- Arguments: p_key, locked by the caller; p_queue.
-- Returns: nothing.
-- Locks: held ready rows, skipping locked ones.
-- Raises: nothing.
-- Called by: restore_keys.
create or replace function taskq.hold_expired(p_key text, p_queue text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  if (
    select r.expires_at <= v_now from taskq.ready r
    where r.hold = 'key' and r.concurrency_key = p_key and r.queue = p_queue
    order by r.priority desc, r.scheduled_at, r.id
    limit 1)
  then
    update taskq.ready r set hold = 'expired'
    where r.id = any (array(
      select h.id
      from taskq.ready h
      where h.hold = 'key' and h.id = any (array(
        select o.id
        from (
          select b.id, b.expires_at
          from taskq.ready b
          where b.hold = 'key' and b.concurrency_key = p_key and b.queue = p_queue
          order by b.priority desc, b.scheduled_at, b.id
          limit 10000
        ) o
        where o.expires_at <= v_now))
      for update skip locked));
  end if;
end
$$;

comment on function taskq.hold_expired is
  'Put aside the jobs of a key that were held up until their time to live was over.';
