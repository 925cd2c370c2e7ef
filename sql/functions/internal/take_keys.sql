-- Take the unique keys of new jobs, or find who holds them.
--
-- Insert, on conflict do nothing, then a plain read; a row that counts no longer is taken by an
-- update. The insert waits for a transaction that is inserting or freeing the same key. The row
-- of a holder is never locked, so that a caller that met `existed` and stays open does not block
-- the settle of that job. Instead its row in ready is locked where it must not be started yet:
-- it is to be replaced, or its key counts only until its start, and claims pass it over until
-- the caller has committed what the job is to see.
--
-- Two calls cannot deadlock: first the inserts in order of key, then the updates in order of
-- key, then the jobs in order of id. A key whose holder vanished in between would break that
-- order, so a call with several keys gives all of them up and is made again.
--
-- Arguments: p_queue; p_ids the ids drawn for the new jobs; p_jobs of equal length.
-- Returns: bigint[] of equal length: the own id where the job has no key or took it, else the
--   holder's id.
-- Locks: unique_keys rows, inserted or taken; ready rows of holders, for share or update.
-- Raises: TQ100 to be called again, of several keys one changed hands; TQ500 when the only one
--   did on every one of twenty looks; 40001 in a caller's repeatable read or serializable
--   transaction.
-- Called by: store_jobs, take_key_back.
create or replace function taskq.take_keys(p_queue text, p_ids bigint[], p_jobs taskq.new_job[])
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set plan_cache_mode = force_generic_plan  -- planning costs more than running, and there is one good plan
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
declare
  v_now     constant timestamptz := taskq.clock();
  v_wanted  taskq.unique_keys[];   -- still to be taken or found, for the first job that asks
  v_keys    text[] := '{}';        -- what is known: these keys have
  v_holders bigint[] := '{}';      -- these holders
  v_locked  bigint[] := '{}';      -- holders that have not been started, and will not be now
  v_more    text[];
  v_jobs    bigint[];
  v_over    taskq.unique_keys[];   -- their rows count no longer: what these are to become
  v_ended   bigint[];              -- the holder of each, null where a start set the row free
  v_stays   bigint[];              -- holders to be locked, in order of id
  v_rewrite boolean[];             -- whether each is to be replaced
  v_several   boolean;
  v_replacing text[];              -- the keys that some request wants to replace
begin
  select array_agg(
    row(p_queue, w.key, w.id, w.scope is not distinct from 'waiting', false, v_now + w.unique_for)::taskq.unique_keys
    order by w.key collate "C")
  into v_wanted
  from (
    select distinct on (t.unique_key) t.unique_key as key, t.id, t.unique_scope as scope, t.unique_for
    from unnest(p_ids, p_jobs) as t (
      id, task, payload, priority, scheduled_at, delay, unique_key, concurrency_key, max_attempts,
      backoff, backoff_max, lease, ttl, headers, unique_mode, unique_scope, unique_for, ordered)
    where t.unique_key is not null
    order by t.unique_key, t.id
  ) w;

  v_several := cardinality(v_wanted) > 1;
  v_replacing := array(
    select distinct j.unique_key from unnest(p_jobs) as j where j.unique_mode like 'replace%' and j.unique_key is not null);

  for v_look in 1 .. 20 loop
    exit when v_wanted is null;

    if v_look = 1 or not v_several then
      insert into taskq.unique_keys
      select w.* from unnest(v_wanted) as w
      on conflict (queue, key) do nothing;
    end if;

    -- one index probe per key: a join here, or an `exists`, would scan the table once it is large;
    -- at repeatable read the row of a holder that has ended meanwhile is seen beside the own one
    with seen as materialized (
      select w.n, w.key, w.job_id, w.waiting, w.expires_at, u.job_id as holder, u.free, w.key = any (v_replacing) as replaces,
        case
          when u.job_id is null then 'gone'
          when u.job_id = w.job_id or u.job_id = any (v_locked) and not u.free then 'held'
          when u.expires_at > v_now and u.free then 'held'
          when u.free then 'over'
          when (u.waiting or w.key = any (v_replacing)) and (select true from taskq.ready r where r.id = u.job_id)
            then 'queued'
          when u.expires_at is null or u.expires_at > v_now then 'held'
          when (select true from taskq.ready r where r.id = u.job_id)
            or (select true from taskq.running r where r.id = u.job_id) then 'held'
          else 'over'
        end as state
      from unnest(v_wanted) with ordinality as w (queue, key, job_id, waiting, free, expires_at, n)
      left join lateral (
        select k.job_id, k.waiting, k.free, k.expires_at
        from taskq.unique_keys k
        where k.queue = p_queue and k.key = w.key
        order by k.job_id = w.job_id desc
        limit 1
      ) u on true
    )
    select
      array_agg(h.key) filter (where h.state = 'held'),
      array_agg(h.holder) filter (where h.state = 'held'),
      array_agg(row(p_queue, h.key, h.job_id, h.waiting, false, h.expires_at)::taskq.unique_keys order by h.n)
        filter (where h.state <> 'held'),
      array_agg(row(p_queue, h.key, h.job_id, h.waiting, false, h.expires_at)::taskq.unique_keys order by h.n)
        filter (where h.state = 'over'),
      array_agg(case when not h.free then h.holder end order by h.n) filter (where h.state = 'over'),
      array_agg(h.holder order by h.holder) filter (where h.state = 'queued'),
      array_agg(h.replaces order by h.holder) filter (where h.state = 'queued')
    into v_more, v_jobs, v_wanted, v_over, v_ended, v_stays, v_rewrite
    from seen h;
    v_keys := v_keys || v_more;
    v_holders := v_holders || v_jobs;
    if v_several and v_look > 1 and v_wanted is not null then
      raise exception using errcode = 'TQ100', message = 'a unique key changed hands: call again';
    end if;

    -- of several keys the caller gives all up, and no subtransaction of its own may be in between: who
    -- waits for a row of one that has ended waits for the whole transaction, also when the caller has
    -- given the row up, and a call that is made again would wait for him
    if v_over is not null and v_several then
      perform taskq.take_over_keys(v_over, v_ended);
    elsif v_over is not null then
      begin
        perform taskq.take_over_keys(v_over, v_ended);
      exception when sqlstate 'TQ100' then
        null;  -- it is looked at again
      end;
    end if;
    -- a job that has come back without its key is nobody's holder any more
    for v_place in 1 .. coalesce(cardinality(v_stays), 0) loop
      if v_rewrite[v_place] then
        perform from taskq.ready r where r.id = v_stays[v_place] and r.is_unique for update;
      else
        perform from taskq.ready r where r.id = v_stays[v_place] and r.is_unique for share;
      end if;
      if found then
        v_locked := v_locked || v_stays[v_place];
      end if;
    end loop;
  end loop;
  if v_wanted is not null then
    raise exception using errcode = 'TQ500',
      message = format('unique key "%s" of queue "%s" changed hands on twenty looks', (v_wanted[1]).key, p_queue),
      hint = 'Call again.';
  end if;

  return array(
    select coalesce(h.holder, t.id)
    from unnest(p_ids, p_jobs) with ordinality as t (
      id, task, payload, priority, scheduled_at, delay, unique_key, concurrency_key, max_attempts,
      backoff, backoff_max, lease, ttl, headers, unique_mode, unique_scope, unique_for, ordered, n)
    left join unnest(v_keys, v_holders) as h (key, holder) on h.key = t.unique_key
    order by t.n);
end
$$;

comment on function taskq.take_keys is
  'Take the unique keys of new jobs, or find who holds them.';
