-- Settle many attempts in one call: each ends by the verb asked for, or says why not.
--
-- Results: `ok`, `retry_scheduled`, `dead` (a failure that ended the job); `already_settled`
-- (this attempt, by this verb: an identical retry after a lost reply), `settle_conflict`
-- (by another verb), `lost` (taken back, pruned or unknown), `rejected` with a reason (this
-- element was bad; the others settle). A settle after the lease ran out but before anybody
-- took the job back still counts.
--
-- Arguments: p_worker_id up to 255 bytes, recorded, not compared, null = who claimed it;
--   p_settlements a JSON array of up to 10,000 objects {"job_id", "attempt_id", "verb"} and by
--   verb: complete: result, any JSON value up to 8 KiB; fail: error (cut to 8 KiB), retryable
--   (default true), retry_after, progress;
--   snooze: delay 0.1 s to 366 days, reason, progress; release: delay, cause, progress;
--   cancel: reason. Intervals as PostgreSQL text or a number of seconds; progress up to 2 KiB.
-- Returns: one row per element in input order: job_id, attempt_id, result, status where that
--   attempt landed (null = unknown), scheduled_at when the job runs again, reason.
-- Locks: running rows by id, waits; then unique_keys.
-- Raises: TQ422 when the document is no such array, or a bad p_worker_id.
-- Called by: workers.
create or replace function taskq.settle(
  p_worker_id   text,
  p_settlements jsonb
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
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_done record;
begin
  if p_worker_id = '' or octet_length(p_worker_id) > 255 then
    raise exception using errcode = 'TQ422', message = 'p_worker_id must be 1 to 255 bytes, or null';
  end if;
  v_done := taskq.parse_completed(p_settlements);
  if v_done.job_ids is not null then
    return query
    select s.job_id, s.attempt_id, s.result, s.status, s.scheduled_at, s.reason
    from taskq.complete_attempts(
      p_worker_id collate "default", v_done.job_ids, v_done.attempt_ids, v_done.results
    ) s;
    return;
  end if;
  return query
  select s.job_id, s.attempt_id, s.result, s.status, s.scheduled_at, s.reason
  from taskq.settle_attempts(
    p_worker_id collate "default", taskq.parse_settlements(p_settlements), p_skip_wake => true
  ) s;
end
$$;

comment on function taskq.settle is
  'Settle many attempts in one call: each ends by the verb asked for, or says why not.';
