-- Find where a job stands and lock its row there.
--
-- The only place that knows the list of places. A job may move between two looks: each look
-- is a statement of its own with its own snapshot, it waits for whoever is moving the row,
-- and finds nothing there after their commit; then the next place is tried. Never one SELECT
-- over all places: what it saw may be gone when the caller acts.
--
-- Arguments: p_job_id.
-- Returns: 'ready', 'running' or 'finished'; the row is locked for update until the
--   transaction ends.
-- Locks: the job's row, waits.
-- Raises: TQ001 no such job; TQ500 the job moved on every look, or stands nowhere.
-- Called by: cancel_job, redrive.
create or replace function taskq.locate(p_job_id bigint)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  for v_look in 1 .. 20 loop
    perform from taskq.ready r where r.id = p_job_id for update;
    if found then
      return 'ready';
    end if;
    perform from taskq.running r where r.id = p_job_id for update;
    if found then
      return 'running';
    end if;
    perform from taskq.finished f where f.id = p_job_id for update;
    if found then
      return 'finished';
    end if;
    perform from taskq.jobs j where j.id = p_job_id;
    if not found then
      raise exception using errcode = 'TQ001', message = format('no job %s', coalesce(p_job_id::text, 'null')),
        hint = 'It was never enqueued here, its enqueue has not committed, or retention deleted it.';
    end if;
  end loop;
  raise exception using errcode = 'TQ500',
    message = format('job %s was in no place on twenty looks', p_job_id),
    hint = 'Run check_integrity(); if it is clean, call again.';
end
$$;

comment on function taskq.locate is
  'Find where a job stands and lock its row there.';
