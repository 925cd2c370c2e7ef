-- Settle one attempt as handed back: the job is queued again, at no cost to its budget.
--
-- With the cause not_started (a prefetched job) no attempt is recorded, and a suspect stays one.
--
-- Arguments: p_job_id and p_attempt_id as claimed; p_delay 0 to 366 days;
--   p_cause cut to 1 KiB; p_progress up to 2 KiB.
-- Returns: one row as settle: job_id, attempt_id, result, status, scheduled_at, reason.
-- Locks: as settle.
-- Raises: nothing: a bad argument is `rejected` with a reason.
-- Called by: workers, people.
create or replace function taskq.release(
  p_job_id     bigint,
  p_attempt_id bigint,
  p_delay      interval = '0',
  p_cause      text = null,
  p_progress   jsonb = null
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
    null, array[row(p_job_id, p_attempt_id, 'release', null, null, null,
      null, p_delay, null, p_cause, p_progress, null)::taskq.settlement]
  ) s;
end
$$;

comment on function taskq.release is
  'Settle one attempt as handed back: the job is queued again, at no cost to its budget.';
