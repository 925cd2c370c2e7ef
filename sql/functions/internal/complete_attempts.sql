-- Settle attempts as done.
--
-- An element that finish_completed does not move goes on to settle_attempts, which knows every
-- answer.
--
-- Arguments: p_worker_id recorded, null = who claimed it; p_job_ids and p_attempt_ids of one
--   length; p_results as long, null for no result, or empty.
-- Returns: one row per item in input order, as settle_attempts.
-- Locks: running rows by id in one statement, waits; then unique_keys.
-- Raises: nothing for a bad item: its result is `rejected`.
-- Called by: settle, complete, complete_many.
create or replace function taskq.complete_attempts(
  p_worker_id   text,
  p_job_ids     bigint[],
  p_attempt_ids bigint[],
  p_results     jsonb[]
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
as $$
#variable_conflict use_column
declare
  v_landed bigint[];  -- ordinals
  v_keys   text[];
begin
  select f.landed, f.keys into v_landed, v_keys
  from taskq.finish_completed(p_worker_id, p_job_ids, p_attempt_ids, p_results) f;
  if v_keys is not null then
    perform taskq.free_keys(v_keys);
  end if;

  if cardinality(v_landed) = cardinality(p_job_ids) then
    return query
    select i.job_id, i.attempt_id, 'ok', 'succeeded', null::timestamptz, null::text
    from unnest(p_job_ids, p_attempt_ids) as i (job_id, attempt_id);
    return;
  end if;

  return query
  with item as (
    select i.*, l.ordinal is not null as landed
    from unnest(p_job_ids, p_attempt_ids, p_results) with ordinality as i (
      job_id, attempt_id, result, ordinal)
    left join unnest(v_landed) as l (ordinal) on l.ordinal = i.ordinal
  ),
  other as (
    select array_agg(i.ordinal order by i.ordinal) as ordinals,
      array_agg(row(i.job_id, i.attempt_id, 'complete', i.result, null, null, null, null, null,
        null, null, null)::taskq.settlement order by i.ordinal) as items
    from item i
    where not i.landed
  )
  select s.job_id, s.attempt_id, s.result, s.status, s.scheduled_at, s.reason
  from (
    select i.ordinal, i.job_id, i.attempt_id, 'ok' as result, 'succeeded' as status,
      null::timestamptz as scheduled_at, null::text as reason
    from item i
    where i.landed
    union all
    select o.ordinals[a.place], a.job_id, a.attempt_id, a.result, a.status, a.scheduled_at, a.reason
    from other o, taskq.settle_attempts(p_worker_id, o.items) with ordinality as a (
      job_id, attempt_id, result, status, scheduled_at, reason, place)
  ) s
  order by s.ordinal;
end
$$;

comment on function taskq.complete_attempts is 'Settle attempts as done.';
