-- Settle one attempt as done: the job is succeeded.
--
-- Also when an operator asked to cancel it: the work is done.
--
-- Arguments: p_job_id and p_attempt_id as claimed; p_result any JSON value up
--   to 8 KiB.
-- Returns: one row as settle: job_id, attempt_id, result, status, scheduled_at, reason.
-- Locks: as settle.
-- Raises: nothing: a bad argument is `rejected` with a reason.
-- Called by: workers, people, a handler's transaction.
create or replace function taskq.complete(
  p_job_id     bigint,
  p_attempt_id bigint,
  p_result     jsonb = null
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
  from taskq.complete_attempts(
    null, array[p_job_id], array[p_attempt_id], array[p_result]
  ) s;
end
$$;

comment on function taskq.complete is
  'Settle one attempt as done: the job is succeeded.';
