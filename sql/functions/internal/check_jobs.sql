-- Refuse requests outside the bounds, naming the first bad one, its size and its cap.
--
-- One pass over the array: every check is a branch of one expression, and only a finding
-- costs more.
--
-- Arguments: p_queue; p_jobs, null fields are absent.
-- Returns: nothing.
-- Locks: none.
-- Raises: TQ422 with the ordinal in DETAIL.
-- Called by: store_jobs, store_job, set_queue (with the policy); pause_queue, resume_queue, purge_queue for
--   the name of the queue.
create or replace function taskq.check_jobs(p_queue text, p_jobs taskq.new_job[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ordinal bigint;
  v_fault   text;
begin
  v_fault := taskq.queue_fault(p_queue);
  if v_fault is not null then
    raise exception using errcode = 'TQ422', message = v_fault;
  end if;

  select j.n - 1, j.fault into v_ordinal, v_fault
  from (
    select n,
      taskq.job_fault(row(task, payload, priority, scheduled_at, delay, unique_key, concurrency_key,
        max_attempts, backoff, backoff_max, lease, ttl, headers, unique_mode, unique_scope, unique_for,
        ordered)::taskq.new_job) as fault
    from unnest(p_jobs) with ordinality as t (
      task, payload, priority, scheduled_at, delay, unique_key, concurrency_key, max_attempts,
      backoff, backoff_max, lease, ttl, headers, unique_mode, unique_scope, unique_for, ordered, n)
  ) j
  where j.fault is not null
  limit 1;
  if found then
    raise exception using errcode = 'TQ422',
      message = case cardinality(p_jobs)
        when 1 then v_fault
        else format('the job at ordinal %s: %s', v_ordinal, v_fault)
      end,
      detail = format('ordinal %s', v_ordinal);
  end if;
end
$$;

comment on function taskq.check_jobs is
  'Refuse requests outside the bounds, naming the first bad one, its size and its cap.';
