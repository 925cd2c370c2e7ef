-- Take the unique key of an ended job back, unless another job holds it.
--
-- The job may have kept the row, for the time of unique_for. Whoever has locked that row is taking
-- it right now, and is not waited for: he may wait for a job that is ours.
--
-- Arguments: p_job its request; it has a unique key, and its finished row is locked.
-- Returns: whether the job holds its key now.
-- Locks: the unique_keys row; an insert waits for a transaction that takes or frees the key. Of a
--   holder whose key counts only until its start, the ready row for share, waits.
-- Raises: TQ500 when the key changed hands on every one of twenty looks; 40001 in a caller's
--   repeatable read or serializable transaction.
-- Called by: redrive.
create or replace function taskq.take_key_back(p_job taskq.jobs)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
begin
  update taskq.unique_keys u set free = false, waiting = p_job.unique_scope is not distinct from 'waiting'
  where u.ctid = any (array(
    select k.ctid from taskq.unique_keys k where k.job_id = p_job.id for update skip locked));
  if found then
    return true;
  end if;
  perform from taskq.unique_keys u where u.job_id = p_job.id;
  if found then
    return false;
  end if;
  return p_job.id = any (taskq.take_keys(p_job.queue, array[p_job.id], array[row(
    p_job.task, null, null, null, null, p_job.unique_key, null, null, null, null, null, null, null,
    null, p_job.unique_scope, null, null)::taskq.new_job]));
end
$$;

comment on function taskq.take_key_back is
  'Take the unique key of an ended job back, unless another job holds it.';
