-- Put a job that has failed or was cancelled back into its queue, due now.
--
-- Its budget starts anew, its time to live too; attempts, checkpoint and options are those it
-- had. A bound on the depth of the queue does not count here. The unique key is taken after the
-- job's row is locked: prune passes the row over, and a second redrive finds the job live.
--
-- Arguments: p_job_id; p_actor, null = the session's role; p_reason.
-- Returns: job_id; result redriven | key_taken (another job holds its unique key: nothing was
--   changed) | already_live; status it has now.
-- Locks: the job's row, waits; then its unique key, waits for a transaction that takes or frees it;
--   a holder whose key counts only until its start is not started before this transaction ends.
-- Raises: TQ001 no such job; TQ409 it has succeeded; TQ500 its request is gone, or its key changed
--   hands again and again; 40001 in a repeatable read or serializable transaction, where that key
--   has changed hands since the first statement.
-- Called by: operators.
create or replace function taskq.redrive(
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
declare
  v_place text;
  v_job   taskq.jobs;
  v_taken boolean := true;
begin
  job_id := p_job_id;
  v_place := taskq.locate(p_job_id);
  if v_place = 'finished' then
    select f.status into redrive.status from taskq.finished f where f.id = p_job_id;
    if status = 'succeeded' then
      raise exception using errcode = 'TQ409', message = format('job %s has succeeded', p_job_id),
        hint = 'Only a failed or cancelled job is put back. To do the work again, enqueue a new one.';
    end if;
    select * into v_job from taskq.jobs j where j.id = p_job_id;
    if not found then
      raise exception using errcode = 'TQ500', message = format('job %s has no request any more', p_job_id),
        hint = 'See check_integrity(). It cannot be put back; retention deletes what is left of it.';
    end if;
    if v_job.unique_key is not null then
      v_taken := taskq.take_key_back(v_job);
    end if;
    if v_taken then
      perform taskq.requeue_finished(array[p_job_id], taskq.clock(), false);
      result := 'redriven';
      status := 'queued';
    else
      result := 'key_taken';
    end if;
  else
    result := 'already_live';
    select v.status into redrive.status from taskq.job_view v where v.id = p_job_id;
  end if;
  perform taskq.write_audit('redrive', format('job %s', p_job_id), p_actor, p_reason,
    jsonb_build_object('result', result));
end
$$;

comment on function taskq.redrive is
  'Put a job that has failed or was cancelled back into its queue, due now.';
