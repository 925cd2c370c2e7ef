-- Lock what a claim may take: the first step of claim.
--
-- Per queue and priority present one range of the claim index, so the cost depends neither on
-- the backlog nor on future-dated rows of a higher priority: one query that filters on
-- scheduled_at walks all of those on PostgreSQL 15. The planner is held to the index, since
-- statistics taken while the table was small would make it sort. A row without its request
-- is passed over (check_integrity reports it), so that it can neither be dropped nor stop
-- the queue. Rows whose time to live is over are put aside until expire_ttl ends them, so that a
-- million of them do not slow the claims: each is met once. One that has a concurrency key leaves a
-- signal, since others of its key may be on hold behind it. After three such looks the claim goes on
-- with the next queue.
--
-- Arguments: p_queues in the order to serve; p_limit.
-- Returns: ids in claim order; keyed, whether any has a concurrency key; named, a unique key.
-- Locks: the ready rows for update, skipping locked ones.
-- Raises: nothing.
-- Called by: claim.
create or replace function taskq.claim_candidates(
  p_queues  text[],
  p_limit   int,
  out ids   bigint[],
  out keyed boolean,
  out named boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_now      constant timestamptz := taskq.clock();
  v_queue    text;
  v_priority int;
  v_ids      bigint[];
  v_keyed    boolean;
  v_named    boolean;
  v_over     bigint[];
  v_keys     text[];
  v_looks    int := 0;     -- that met such rows, in all queues
  v_seen     int;          -- the priority of the last look; another one there begins behind these
  v_at       timestamptz;
  v_id       bigint;
begin
  ids := '{}';
  keyed := false;
  named := false;
  foreach v_queue in array p_queues loop
    continue when exists (
      select from taskq.queues q where q.name = v_queue and q.paused_at is not null);
    v_priority := 32768;
    v_seen := 32768;
    while cardinality(ids) < p_limit loop
      select r.priority into v_priority
      from taskq.ready r
      where r.queue = v_queue and r.hold is null and r.priority < v_priority
      order by r.priority desc
      limit 1;
      exit when not found;
      if v_priority <> v_seen then
        v_seen := v_priority;
        v_at := '-infinity';
        v_id := 0;
      end if;

      with candidate as materialized (
        select r.id, r.concurrency_key, r.is_unique, r.expires_at <= v_now as over
        from taskq.ready r
        where r.queue = v_queue and r.hold is null and r.priority = v_priority
          and r.scheduled_at <= v_now and (r.scheduled_at, r.id) > (v_at, v_id)
          and (select true from taskq.jobs j where j.id = r.id)
        order by r.scheduled_at, r.id
        limit p_limit - cardinality(ids)
        for update of r skip locked
      )
      select array_agg(c.id) filter (where c.over is not true),
        bool_or(c.concurrency_key is not null) filter (where c.over is not true),
        bool_or(c.is_unique) filter (where c.over is not true),
        array_agg(c.id) filter (where c.over)
      into v_ids, v_keyed, v_named, v_over
      from candidate c;
      if v_ids is not null then
        ids := ids || v_ids;
        keyed := keyed or v_keyed;
        named := named or v_named;
      end if;

      if v_over is not null then
        update taskq.ready r set hold = 'expired' where r.id = any (v_over);
        v_keys := array(
          select distinct r.concurrency_key from taskq.ready r
          where r.id = any (v_over) and r.concurrency_key is not null);
        if v_ids is null then
          v_keys := v_keys || taskq.hold_jam(v_over[cardinality(v_over)], null);
        end if;
        if cardinality(v_keys) > 0 then
          perform taskq.free_keys(v_keys);
        end if;
        v_looks := v_looks + 1;
        exit when v_looks >= 3;
        -- look again, and behind them: what is ours already is not locked for us
        v_priority := v_priority + 1;
        select max(r.scheduled_at) into v_at from taskq.ready r where r.id = any (v_ids || v_over);
        select max(r.id) into v_id from taskq.ready r where r.id = any (v_ids || v_over) and r.scheduled_at = v_at;
      end if;
    end loop;
  end loop;
end
$$;

comment on function taskq.claim_candidates is
  'Lock what a claim may take: the first step of claim.';
