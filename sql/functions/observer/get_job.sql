-- Show one job as one row, wherever it stands.
--
-- Arguments: p_job_id.
-- Returns: a job_view row.
-- Locks: none.
-- Raises: TQ001 no such job.
-- Called by: everybody who looks; job_history.
create or replace function taskq.get_job(p_job_id bigint)
returns setof taskq.job_view
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query select v.* from taskq.job_view v where v.id = p_job_id;
  if not found then
    raise exception using errcode = 'TQ001', message = format('no job %s', coalesce(p_job_id::text, 'null')),
      hint = 'It was never enqueued here, its enqueue has not committed, or retention deleted it.';
  end if;
end
$$;

comment on function taskq.get_job is
  'Show one job as one row, wherever it stands.';
