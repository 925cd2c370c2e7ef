-- Lock what a claim may take: the first step of claim.
--
-- Per queue and priority present one range of the claim index, so the cost depends neither on
-- the backlog nor on future-dated rows of a higher priority: one query that filters on
-- scheduled_at walks all of those on PostgreSQL 15. The first look at a queue finds the priority
-- by itself, and is often the only one: it finds nothing too where the queue is paused, or where
-- signals have to be seen to before. The caller holds the planner to the index, since statistics
-- taken while the table was small would make it sort. Rows whose time to live is over are put
-- aside until expire_ttl ends them, so that a million of them do not slow the claims: each is met
-- once. After three such looks the claim goes on with the next queue.
--
-- What was claimed stays in the index until vacuum has been there: as empty pages, and under a
-- snapshot of another session as entries that lead to dead rows. A walk over many of those is
-- noticed by the counters of the session, which then remembers behind which job of each priority
-- it may begin. It begins at the very start again when it finds too few, when a signal may have
-- brought something back, and at that of a priority after 5 ms, 6 us for each entry and 40 us for each
-- page of the last walk from there, at most 5 s: so long may what comes to stand before the place (a
-- raised priority, a past time, a slow commit, a claim that is rolled back) have to wait, and nobody
-- comes back short because of it. A walk of few pages is not worth that, and the order is exact. Where track_counts is off,
-- nothing is noticed, and claims decay as described below. What another session has claimed of a
-- priority of which nothing is left is walked over each time.
--
-- Measured, batches of 100 and single ones, CPU of the server per job after 100,000 claims:
--   nothing remembered: 33 and 2,232 us; under an old snapshot 229 and 23,671 us
--   with places: 21 and 815 us; under an old snapshot 21 and 544 us
-- The whole claim at 1, 10 and 500 rows a call, CPU of the server per job (the raw floor: 190, 27, 6.3 us):
--   a probe of jobs for each candidate, ids instead of tids, statements of their own for pause, signals and
--   priority, a function for the move: 695, 77 and 21.0 us
--   this: 388, 54 and 13.1 us
-- 32 clients at 100 rows reach 0.94 of the rate of 4, without tickets: 0.85 before, 0.59 the raw floor.
--
-- Arguments: p_queues in the order to serve; p_limit; p_whole: pass over rows without their request.
-- Returns: tids of rows in ready, in claim order, which hold as long as the locks do; keyed, whether any
--   has a concurrency key; named, a unique key.
-- Locks: the ready rows for update, skipping locked ones.
-- Raises: nothing.
-- Called by: claim, with its settings.
create or replace function taskq.claim_candidates(
  p_queues  text[],
  p_limit   int,
  p_whole   boolean,
  out tids  tid[],
  out keyed boolean,
  out named boolean
)
language plpgsql
as $$
declare
  v_now      constant timestamptz := taskq.clock();
  v_index    constant oid := to_regclass('taskq.ready_claim');  -- null while it is made anew: claims are slow then, and go on
  v_setting  constant text := 'taskq_sync.places_' || v_index;
  v_places   jsonb := nullif(current_setting(v_setting, true), '');
  v_hints    jsonb;             -- of the queue, a list of [priority, scheduled_at, id, until]; null = none
  v_hint     int;
  v_floor    int;
  v_blocks   bigint;            -- pages and entries of the index that the queue has cost
  v_entries  bigint;
  v_steps    int;               -- how many times it was looked at
  v_long     boolean;
  v_before   tid[];             -- what the queues before have given
  v_restored boolean := false;  -- signals have been seen to, or there are none
  v_queue    text;
  v_below    int;               -- the priorities that are still to be looked at
  v_priority int;               -- the one to look at, null = the highest of them
  v_at       timestamptz;       -- behind this time and this job
  v_id       bigint;
  v_tids     tid[];             -- what a look has found, in one priority
  v_found    int;
  v_special  boolean;
  v_rest     record;
  v_looks    int := 0;          -- that met rows whose time to live is over, in all queues
begin
  tids := '{}';
  keyed := false;
  named := false;
  foreach v_queue in array p_queues loop
    exit when cardinality(tids) = p_limit;
    v_before := tids;
    v_steps := 0;
    v_blocks := pg_stat_get_xact_blocks_fetched(v_index);
    v_entries := pg_stat_get_xact_tuples_returned(v_index);
    v_hints := case
      when v_places is not null and not p_whole then taskq.valid_places(v_places -> v_queue, v_queue)
    end;
    v_hint := 0;
    v_below := 32768;
    v_priority := null;
    v_at := '-infinity';
    v_id := 0;
    while cardinality(tids) < p_limit loop
      v_steps := v_steps + 1;
      if v_hints is not null and v_priority is null then
        v_floor := coalesce((v_hints -> v_hint ->> 0)::int, -32769);
        select r.priority into v_priority
        from taskq.ready r
        where r.queue = v_queue and r.hold is null and r.priority < v_below and r.priority > v_floor
        order by r.priority desc
        limit 1;
        if found then
          v_at := '-infinity';
          v_id := 0;
        elsif v_floor > -32769 then
          v_priority := v_floor;
          v_at := (v_hints -> v_hint ->> 1)::timestamptz;
          v_id := (v_hints -> v_hint ->> 2)::bigint;
          v_hint := v_hint + 1;
        else  -- too few: look from the very start; what is ours already is not locked for us
          v_hints := null;
          v_below := 32768;
          v_at := '-infinity';
          v_id := 0;
          tids := v_before;
        end if;
      end if;

      select array_agg(c.tid), min(c.priority), bool_or(c.special)
      into v_tids, v_found, v_special
      from (
        select r.ctid as tid, r.priority,
          r.concurrency_key is not null or r.is_unique or r.expires_at <= v_now as special
        from taskq.ready r
        where r.queue = v_queue and r.hold is null
          and r.priority = coalesce(v_priority, (
            select p.priority
            from taskq.ready p
            where p.queue = v_queue and p.hold is null and p.priority < v_below
              and (v_restored or not exists (select from taskq.signals s where s.kind = 'key'))
              and not exists (select from taskq.queues q where q.name = v_queue and q.paused_at is not null)
            order by p.priority desc
            limit 1))
          and r.scheduled_at <= v_now and (r.scheduled_at, r.id) > (v_at, v_id)
          and (not p_whole or (select true from taskq.jobs j where j.id = r.id))
        order by r.scheduled_at, r.id
        limit p_limit - cardinality(tids)
        for update of r skip locked
      ) c;

      if v_tids is null and v_hints is not null then
        v_below := v_priority;
        v_priority := null;
        continue;
      end if;
      if v_tids is null then
        if not v_restored then
          v_restored := true;
          if exists (select from taskq.signals s where s.kind = 'key') then
            perform taskq.restore_keys();
            continue;
          end if;
        end if;
        exit when v_priority is null and exists (
          select from taskq.queues q where q.name = v_queue and q.paused_at is not null);
        v_below := coalesce(v_priority, v_below);
        select r.priority into v_priority
        from taskq.ready r
        where r.queue = v_queue and r.hold is null and r.priority < v_below
        order by r.priority desc
        limit 1;
        exit when not found;
        v_at := '-infinity';
        v_id := 0;
        continue;
      end if;

      v_restored := true;
      if v_special then
        v_rest := taskq.hold_over(v_tids);
        tids := tids || v_rest.tids;
        keyed := keyed or v_rest.keyed;
        named := named or v_rest.named;
        if v_rest.last_id is not null then
          v_looks := v_looks + 1;
          exit when v_looks >= 3;
          -- look again, and behind them: what is ours already is not locked for us
          v_priority := v_found;
          v_at := v_rest.last_at;
          v_id := v_rest.last_id;
          continue;
        end if;
      else
        tids := tids || v_tids;
      end if;
      v_below := v_found;
      v_priority := null;
      v_at := '-infinity';
      v_id := 0;
    end loop;

    v_blocks := pg_stat_get_xact_blocks_fetched(v_index) - v_blocks;
    v_entries := pg_stat_get_xact_tuples_returned(v_index) - v_entries;
    v_long := v_blocks > 8 * v_steps + 8 + p_limit / 64 or v_entries > 2 * p_limit + 300;
    if v_long and cardinality(tids) = p_limit and not keyed then
      if octet_length(v_places::text) > 16384 then
        v_places := null;  -- of many queues, as where a pooler lends the session to many: reading them costs every claim
      end if;
      v_places := coalesce(v_places, '{}') || taskq.note_places(
        v_queue, tids[p_limit], v_places -> v_queue, v_hints,
        interval '5 ms' + v_entries * interval '6 us' + v_blocks * interval '40 us');
      perform set_config(v_setting, v_places::text, false);
    elsif v_hints is null and v_places ? v_queue then
      v_places := v_places - v_queue;
      perform set_config(v_setting, v_places::text, false);
    end if;
  end loop;
end
$$;

comment on function taskq.claim_candidates is
  'Lock what a claim may take: the first step of claim.';
