-- Take up to p_limit due jobs under a lease, each with a fence of its own.
--
-- Candidates, admit, move: the first two are internal functions, and a queue that uses no keys
-- calls none of theirs. It may return fewer jobs than there are: poll_hint then says `ready`. The
-- fence is drawn here and must never be drawn twice, so the commit is synchronous whatever the
-- role's setting. Meant for up to about 20 priorities in use per queue.
-- Where much has been claimed since the last vacuum, a job that comes to stand before what was
-- claimed last may wait for up to 5 s behind others of its priority: see claim_candidates.
--
-- Arguments: p_queues 1 to 100 names, served in this order; p_worker_id up to 255 bytes;
--   p_limit 1 to 1000; p_lease 0.1 s to 1 day, null = each job's own.
-- Returns: claimed_job rows in claim order: queues as given, then priority (higher first),
--   scheduled_at, id.
-- Locks: ready rows, skipping locked ones; the advisory locks of at most 128 concurrency
--   keys, tried. Waits for nobody.
-- Raises: TQ422 bad input; TQ409 outside read committed, where a key cannot be counted.
-- Called by: workers.
create or replace function taskq.claim(
  p_queues    text[],
  p_worker_id text,
  p_limit     int = 1,
  p_lease     interval = null
)
returns setof taskq.claimed_job
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now   constant timestamptz := taskq.clock();
  v_left  int := p_limit;
  v_moved int;
  v_whole boolean := false;
  v_found record;
  v_tids  tid[];
begin
  perform taskq.check_claim(p_queues collate "default", p_worker_id collate "default", p_limit, p_lease);
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'TQ409',
      message = format('claim was called in a %s transaction', current_setting('transaction_isolation')),
      hint = 'Call it at read committed: a concurrency key is counted in a statement after its lock.';
  end if;
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;

  loop
    v_found := taskq.claim_candidates(p_queues collate "default", v_left, v_whole);
    v_tids := v_found.tids;
    if v_found.keyed then
      v_tids := taskq.admit_keys(v_tids);
    end if;
    exit when v_tids = '{}';
    if v_found.named then
      -- a key that counts only until the start is now for whoever asks next; one that is free
      -- already, of a job that came back without it, may be locked by who takes it
      update taskq.unique_keys u set free = true
      where u.job_id = any (array(select r.id from taskq.ready r where r.ctid = any (v_tids)))
        and u.waiting and not u.free;
    end if;

    -- The move is a statement here, since the rows of a function would go through one more tuplestore,
    -- and each setting of a function costs every call: those above serve the candidates too. Rows are
    -- reached by tid: they are locked, so they stay where they are. Each join is lateral and of one row,
    -- so that no statistics can make it another one, and the rows keep the order of the candidates
    -- without a sort. One without its request (check_integrity reports it) is left where it is, so that
    -- it can neither be dropped nor stop the queue.
    --
    -- Measured at 500 rows a call, CPU of the server per job under a profiler: a function for the move,
    -- rows reached by id and sorted 24.7 us (the sort alone 6 %); this 21.9 us. No clear difference:
    -- deleting first and joining what was deleted, which needs the sort; no planner settings, with which
    -- a plan made while tables were small would stay. Single claims without force_generic_plan and the
    -- planner settings: 963 us against 582.
    return query
    with work as materialized (
      select t.tid, r.*, j.payload, j.headers, j.max_attempts, j.created_at,
        coalesce(p_lease, j.lease) as lease, nextval('taskq.fence') as attempt_id
      from unnest(v_tids) as t (tid)
      cross join lateral (select * from taskq.ready where ready.ctid = t.tid limit 1) r
      cross join lateral (select * from taskq.jobs where jobs.id = r.id limit 1) j
    ),
    gone as (
      delete from taskq.ready r where r.ctid = any (array(select w.tid from work w))
    ),
    leased as (
      insert into taskq.running (
        id, attempt_id, queue, task, priority, scheduled_at, expires_at, concurrency_key,
        worker_id, claimed_at, lease, lease_expires_at, attempt_count, failure_count,
        expiry_streak, snooze_count, progress, is_unique, is_ordered,
        watched)
      select w.id, w.attempt_id, w.queue, w.task, w.priority, w.scheduled_at, w.expires_at,
        w.concurrency_key, p_worker_id, v_now, w.lease, v_now + w.lease, w.attempt_count + 1,
        w.failure_count, w.expiry_streak, w.snooze_count, w.progress, w.is_unique, w.is_ordered, w.watched
      from work w
    )
    select w.id, w.attempt_id, w.queue, w.task, w.payload, w.headers, w.progress, w.priority,
      w.attempt_count + 1, w.failure_count, w.max_attempts, w.expiry_streak, w.scheduled_at,
      w.created_at, w.lease, v_now + w.lease, w.concurrency_key
    from work w;
    get diagnostics v_moved = row_count;
    -- rows without their request are left where they are: look again, for what stands behind them
    exit when v_moved = cardinality(v_tids) or v_whole;
    v_left := v_left - v_moved;
    v_whole := true;
  end loop;
end
$$;

comment on function taskq.claim is
  'Take up to p_limit due jobs under a lease, each with a fence of its own.';
