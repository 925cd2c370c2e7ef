-- Settle one attempt as failed: the job runs again after its backoff, or is failed.
--
-- Burns one of max_attempts. An operator's cancel request makes it cancelled instead.
--
-- Arguments: p_job_id and p_attempt_id as claimed; p_error cut to 8 KiB;
--   p_retryable false = failed for good; p_retry_after instead of the backoff, 0 to 366 days;
--   p_progress up to 2 KiB.
-- Returns: one row as settle: job_id, attempt_id, result, status, scheduled_at, reason.
-- Locks: as settle.
-- Raises: nothing: a bad argument is `rejected` with a reason.
-- Called by: workers, people.
create or replace function taskq.fail(
  p_job_id      bigint,
  p_attempt_id  bigint,
  p_error       text,
  p_retryable   boolean = true,
  p_retry_after interval = null,
  p_progress    jsonb = null
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
begin
  return query
  select s.job_id, s.attempt_id, s.result, s.status, s.scheduled_at, s.reason
  from taskq.settle_attempts(
    null, array[row(p_job_id, p_attempt_id, 'fail', null, p_error, p_retryable,
      p_retry_after, null, null, null, p_progress, null)::taskq.settlement]
  ) s;
end
$$;

comment on function taskq.fail is
  'Settle one attempt as failed: the job runs again after its backoff, or is failed.';
