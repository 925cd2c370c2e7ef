-- Show every attempt of a job, oldest first, the running one included.
--
-- Arguments: p_job_id.
-- Returns: attempt_id, worker_id, claimed_at, ended_at (null = runs), verb asked for
--   (take_back = its lease ran out), status where it landed, outcome, error, reason,
--   scheduled_at when it was to run again.
-- Locks: none.
-- Raises: TQ001 no such job.
-- Called by: everybody who looks.
create or replace function taskq.job_history(p_job_id bigint)
returns table (
  attempt_id   bigint,
  worker_id    text,
  claimed_at   timestamptz,
  ended_at     timestamptz,
  verb         text,
  status       text,
  outcome      text,
  error        text,
  reason       text,
  scheduled_at timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from taskq.get_job(p_job_id);
  return query
  select a.attempt_id, a.worker_id, a.claimed_at, a.ended_at, a.verb, a.status, a.outcome,
    a.error, a.reason, a.scheduled_at
  from taskq.attempt_view a
  where a.job_id = p_job_id
  order by a.attempt_id;
end
$$;

comment on function taskq.job_history is
  'Show every attempt of a job, oldest first, the running one included.';
