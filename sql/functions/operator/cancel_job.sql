-- Cancel a job: at once when it is queued, by request when it runs.
--
-- A running handler learns of it with its worker's next beat. If it completes all the same,
-- the job is succeeded; any other end is cancelled.
--
-- Arguments: p_job_id; p_actor who asks, null = the session's role; p_reason why.
-- Returns: job_id; result cancelled | requested | already_ended; status it has now.
-- Locks: the job's row, waits.
-- Raises: TQ001 no such job.
-- Called by: operators.
create or replace function taskq.cancel_job(
  p_job_id   bigint,
  p_actor    text = null,
  p_reason   text = null,
  out job_id bigint,
  out result text,
  out status text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  job_id := p_job_id;
  case taskq.locate(p_job_id)
    when 'ready' then
      perform taskq.finish_ready(array[p_job_id], 'cancelled', p_reason);
      result := 'cancelled';
      status := 'cancelled';
    when 'running' then
      update taskq.running r
      set cancel_requested_at = taskq.clock(),
          cancel_actor = taskq.clip(coalesce(p_actor, session_user), 255),
          cancel_reason = taskq.clip(p_reason, 1024)
      where r.id = p_job_id and r.cancel_requested_at is null;
      result := 'requested';
      status := 'running';
    else
      select f.status into cancel_job.status from taskq.finished f where f.id = p_job_id;
      result := 'already_ended';
  end case;
  perform taskq.write_audit('cancel_job', format('job %s', p_job_id), p_actor, p_reason,
    jsonb_build_object('result', result));
end
$$;

comment on function taskq.cancel_job is
  'Cancel a job: at once when it is queued, by request when it runs.';
