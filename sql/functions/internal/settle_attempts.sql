-- Settle attempts: decide in one expression where each lands, move them, answer in order.
--
-- Serves settle, its single forms and take_back, which is a sixth verb: whoever locks the
-- running row first ends the attempt. What the fence did not hold is looked up in a second
-- statement, whose answer is final, because an attempt never returns to running. Two elements
-- for one attempt: the first counts, the second finds what the first left. Duplicates are by
-- (job_id, attempt_id): a stale attempt must not shadow the valid one of the same job. A job
-- handed back unstarted keeps its streak: nothing was learnt of it.
--
-- Arguments: p_worker_id recorded, null = who claimed it; p_items; p_taking_back true only
--   from take_back, whose items have the verb take_back; p_skip_wake true from the calls of
--   workers, which commit at once: NOTIFY is skipped when no sleeping worker needs it.
-- Returns: one row per item in input order: job_id, attempt_id, result, status where that
--   attempt landed (null = unknown), scheduled_at when it runs again, reason of `rejected`.
-- Locks: running rows by id in one statement, waits; then unique_keys.
-- Raises: nothing for a bad item: its result is `rejected`.
-- Called by: settle, complete_attempts, fail, snooze, release, cancel_attempt, take_back.
create or replace function taskq.settle_attempts(
  p_worker_id   text,
  p_items       taskq.settlement[],
  p_taking_back boolean = false,
  p_skip_wake   boolean = false
)
returns table (
  job_id       bigint,
  attempt_id   bigint,
  result       text,
  status       text,
  scheduled_at timestamptz,
  reason       text
)
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now      constant timestamptz := taskq.clock();
  v_verbs    constant text[] := case
    when p_taking_back then array['take_back']
    else array['complete', 'fail', 'snooze', 'release', 'cancel']
  end;
  v_landings taskq.landing[];
  v_items    taskq.settlement[] := p_items;
begin
  v_items := array(
    select row(t.job_id, t.attempt_id, t.verb, t.result, t.error, t.retryable, t.retry_after,
      t.delay, t.reason, t.cause, t.progress,
      case
        when t.fault is not null then t.fault
        when t.job_id is null or t.attempt_id is null then 'job_id and attempt_id are required'
        when t.verb is null or t.verb <> all (v_verbs)
          then format('verb must be complete, fail, snooze, release or cancel, not %s', coalesce('"' || taskq.clip(t.verb, 60) || '"', 'null'))
        when octet_length(t.result::text) > 8192
          then format('a result of %s bytes is over the cap of 8192', octet_length(t.result::text))
        when octet_length(t.progress::text) > 2048
          then format('progress of %s bytes is over the cap of 2048', octet_length(t.progress::text))
        when t.verb = 'snooze' and taskq.fits(t.delay, '0.1 s', '366 days') is not true
          then format('delay %s of a snooze is outside 0.1 s to 366 days', coalesce(t.delay::text, 'null'))
        when not taskq.fits(t.delay, '0', '366 days')
          then format('delay %s is outside 0 to 366 days', t.delay)
        when not taskq.fits(t.retry_after, '0', '366 days')
          then format('retry_after %s is outside 0 to 366 days', t.retry_after)
      end)::taskq.settlement
    from unnest(p_items) as t);

  with item as materialized (
    select i.*, row_number() over (partition by i.job_id, i.attempt_id order by i.ordinal) as place
    from unnest(v_items) with ordinality as i (
      job_id, attempt_id, verb, result, error, retryable, retry_after, delay, reason, cause,
      progress, fault, ordinal)
    where i.fault is null
  ),
  locked as materialized (
    select r.id, r.attempt_id, r.queue, r.concurrency_key, r.worker_id, r.failure_count,
      r.expiry_streak, r.cancel_requested_at is not null as cancel_asked, r.cancel_reason
    from taskq.running r
    where r.id = any (array(select i.job_id from item i))
      and (r.id, r.attempt_id) in (select i.job_id, i.attempt_id from item i)
    order by r.id
    for update of r
  ),
  held as (
    -- the policy is read only where it decides; the probe keeps every complete out of jobs
    select i.*, l.queue, l.concurrency_key, l.worker_id, l.failure_count, l.expiry_streak,
      l.cancel_asked, l.cancel_reason,
      l.failure_count + 1 as failures, l.expiry_streak + 1 as streak,
      coalesce(j.max_attempts, 1) as max_attempts,
      coalesce(j.backoff, '0') as backoff, coalesce(j.backoff_max, '0') as backoff_max
    from item i
    join locked l on l.id = i.job_id and l.attempt_id = i.attempt_id
    left join lateral (
      select jobs.max_attempts, jobs.backoff, jobs.backoff_max
      from taskq.jobs
      where jobs.id = case when i.verb in ('fail', 'take_back') then i.job_id end
      limit 1
    ) j on true
    where i.place = 1
  ),
  ended as (
    select h.*,
      case
        when h.verb = 'complete' then 'success'
        when h.verb = 'take_back' and h.cancel_asked then 'cancelled_after_expiry'
        when h.verb = 'cancel' or h.cancel_asked then 'cancelled'
        when h.verb = 'take_back' and h.streak >= 3 then 'poison'
        when h.verb = 'fail' and not coalesce(h.retryable, true) then 'non_retryable'
        when h.verb in ('fail', 'take_back') and h.failures >= h.max_attempts then 'retry_exhausted'
      end as outcome
    from held h
  ),
  landed as (
    select e.*,
      case
        when e.outcome is null then 'queued'
        when e.outcome = 'success' then 'succeeded'
        when e.outcome in ('cancelled', 'cancelled_after_expiry') then 'cancelled'
        else 'failed'
      end as status,
      coalesce(case when e.cancel_asked and e.outcome like 'cancelled%' then e.cancel_reason end,
               e.reason, e.cause) as why,
      case when e.outcome is null then v_now + case
        when e.verb = 'fail' then coalesce(e.retry_after, taskq.backoff_delay(e.backoff, e.backoff_max, e.failures))
        when e.verb = 'take_back' and e.streak > 1 then taskq.backoff_delay(e.backoff, e.backoff_max, e.streak - 1)
        when e.verb = 'take_back' then interval '0'
        else coalesce(e.delay, interval '0')
      end end as scheduled_at
    from ended e
  )
  select array_agg(row(
      d.ordinal, d.job_id, d.attempt_id, d.verb, coalesce(p_worker_id, d.worker_id), d.status, d.outcome,
      case
        when d.verb = 'fail' and d.status = 'queued' then 'retry_scheduled'
        when d.verb = 'fail' and d.status = 'failed' then 'dead'
        else 'ok'
      end,
      case when d.verb = 'complete' then d.result end,
      case when octet_length(d.error) > 8192 then taskq.clip(d.error, 8192) else d.error end,
      case when octet_length(d.why) > 1024 then taskq.clip(d.why, 1024) else d.why end,
      d.scheduled_at, d.progress,
      d.failure_count + case when d.verb in ('fail', 'take_back') and d.status <> 'cancelled' then 1 else 0 end,
      case
        when d.verb = 'take_back' then d.streak
        when d.verb = 'release' and d.cause = 'not_started' then d.expiry_streak
        else 0
      end,
      d.queue, d.concurrency_key)::taskq.landing
    order by d.ordinal)
  into v_landings
  from landed d;

  if v_landings is not null then
    if exists (select from unnest(v_landings) as l where l.status <> 'queued') then
      perform taskq.finish(v_landings);
    end if;
    if exists (select from unnest(v_landings) as l where l.status = 'queued') then
      perform taskq.requeue(v_landings, p_skip_wake);
    end if;
    if exists (select from unnest(v_landings) as l where l.concurrency_key is not null) then
      perform taskq.free_keys(array(select l.concurrency_key from unnest(v_landings) as l));
    end if;
  end if;

  if cardinality(v_landings) = cardinality(v_items) then
    return query
    select l.job_id, l.attempt_id, l.answer, l.status, l.scheduled_at, null::text
    from unnest(v_landings) as l;
    return;
  end if;

  return query
  select i.job_id, i.attempt_id,
    case
      when i.fault is not null then 'rejected'
      when l.ordinal is not null then l.answer
      when past.verb is null or past.verb = 'take_back' then 'lost'
      when past.verb = i.verb then 'already_settled'
      else 'settle_conflict'
    end,
    case
      when l.ordinal is not null then l.status
      when past.verb <> 'take_back' then past.status
    end,
    case
      when l.ordinal is not null then l.scheduled_at
      when past.verb <> 'take_back' then past.scheduled_at
    end,
    i.fault
  from unnest(v_items) with ordinality as i (
    job_id, attempt_id, verb, result, error, retryable, retry_after, delay, reason, cause,
    progress, fault, ordinal)
  left join unnest(v_landings) as l on l.ordinal = i.ordinal
  left join lateral (
    select f.verb, f.status, null::timestamptz as scheduled_at
    from taskq.finished f
    where f.id = i.job_id and f.attempt_id = i.attempt_id and l.ordinal is null and i.fault is null
    union all
    select a.verb, a.status, a.scheduled_at
    from taskq.attempts a
    where a.job_id = i.job_id and a.attempt_id = i.attempt_id and l.ordinal is null and i.fault is null
    limit 1
  ) past on true
  order by i.ordinal;
end
$$;

comment on function taskq.settle_attempts is
  'Settle attempts: decide in one expression where each lands, move them, answer in order.';
