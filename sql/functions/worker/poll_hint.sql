-- Say, per queue, whether a claim should be tried again and when the next job is due.
--
-- Asked after a claim that came back short. `ready`: a due job is there (it was passed over for a
-- busy lock, or its time to live is over and a claim has yet to put it aside), or a held one may
-- have room again, or 1,000 keys have signals, of which each claim uses up 64: try again after 5
-- to 20 ms.
--
-- Arguments: p_queues as in claim.
-- Returns: one row per queue in the given order: queue, state ready | empty | paused,
--   next_due_at the earliest later job, null = none.
-- Locks: none.
-- Raises: TQ422 bad input.
-- Called by: workers before they sleep.
create or replace function taskq.poll_hint(p_queues text[])
returns table (queue text, state text, next_due_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_now      constant timestamptz := taskq.clock();
  v_queue    text collate "default";
  v_keys     text[] collate "default";
  v_priority int;
  v_due      timestamptz;
begin
  perform taskq.check_claim(p_queues collate "default", 'poll_hint', 1, null);
  -- from key to key through the index: after an outage there may be many signals of each; and
  -- bounded: where a million keyed jobs have expired, there are as many keys
  with recursive signalled (key) as (
    (select s.key from taskq.signals s where s.kind = 'key' order by s.key limit 1)
    union all
    select (select s.key from taskq.signals s where s.kind = 'key' and s.key > d.key order by s.key limit 1)
    from signalled d
    where d.key is not null
  )
  select array_agg(d.key) into v_keys
  from (select s.key from signalled s where s.key is not null limit 1000) d;
  foreach v_queue in array p_queues loop
    queue := v_queue;
    next_due_at := null;
    state := case
      when exists (
        select from taskq.queues q where q.name = v_queue and q.paused_at is not null
      ) then 'paused'
      when cardinality(v_keys) = 1000 then 'ready'
      when exists (
        select from unnest(v_keys) as k (key)
        where (
          select true from taskq.ready r
          where r.hold = 'key' and r.concurrency_key = k.key and r.queue = v_queue
          order by r.priority desc, r.scheduled_at, r.id  -- the index, and no other
          limit 1)
        or (
          select r.queue from taskq.ready r
          where r.hold = 'order' and r.concurrency_key = k.key
          order by r.id
          limit 1) = v_queue
      ) then 'ready'
      else 'empty'
    end;

    v_priority := 32768;
    while state = 'empty' loop
      select r.priority into v_priority
      from taskq.ready r
      where r.queue = v_queue and r.hold is null and r.priority < v_priority
      order by r.priority desc
      limit 1;
      exit when not found;

      if exists (
        select from taskq.ready r
        where r.queue = v_queue and r.hold is null and r.priority = v_priority
          and r.scheduled_at <= v_now  -- one whose time to live is over too: a claim puts it aside
      ) then
        state := 'ready';
      end if;
      select r.scheduled_at into v_due
      from taskq.ready r
      where r.queue = v_queue and r.hold is null and r.priority = v_priority
        and r.scheduled_at > v_now
      order by r.scheduled_at
      limit 1;
      next_due_at := least(next_due_at, case when found then v_due end);
    end loop;
    return next;
  end loop;
end
$$;

comment on function taskq.poll_hint is
  'Say, per queue, whether a claim should be tried again and when the next job is due.';
