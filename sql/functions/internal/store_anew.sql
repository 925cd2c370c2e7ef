-- Store checked requests, again and again until no unique key changes hands in between.
--
-- A try that did not succeed is rolled back, so that what it had locked is free before the next
-- one takes its locks in order.
--
-- Arguments: as store_jobs.
-- Returns: as store_jobs.
-- Locks: as store_jobs.
-- Raises: as store_jobs, and TQ500 after twenty tries instead of TQ100.
-- Called by: enqueue that replaces, enqueue_many with unique keys.
create or replace function taskq.store_anew(p_queue text, p_jobs taskq.new_job[], p_skip_wake boolean)
returns table (ordinal int, status text, job_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  for v_try in 1 .. 20 loop
    begin
      return query select s.ordinal, s.status, s.job_id from taskq.store_jobs(p_queue, p_jobs, p_skip_wake) s;
      return;
    exception when sqlstate 'TQ100' then
      null;
    end;
  end loop;
  raise exception using errcode = 'TQ500',
    message = format('unique keys of queue "%s" changed hands on twenty tries', p_queue),
    hint = 'Call again.';
end
$$;

comment on function taskq.store_anew is
  'Store checked requests, again and again until no unique key changes hands in between.';
