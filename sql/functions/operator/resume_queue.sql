-- Resume a paused queue and wake its workers.
--
-- Arguments: p_queue; p_actor, null = the session's role; p_reason.
-- Returns: queue; result resumed | not_paused.
-- Locks: the queue's row, waits.
-- Raises: TQ422 a bad name.
-- Called by: operators.
create or replace function taskq.resume_queue(
  p_queue    text,
  p_actor    text = null,
  p_reason   text = null,
  out queue  text,
  out result text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  perform taskq.check_jobs(p_queue collate "default", '{}');
  queue := p_queue;
  update taskq.queues q
  set paused_at = null, version = q.version + 1, updated_at = v_now
  where q.name = p_queue collate "default" and q.paused_at is not null;
  result := case when found then 'resumed' else 'not_paused' end;
  if result = 'resumed' then
    perform taskq.wake(p_queue collate "default", v_now, false);
  end if;
  perform taskq.write_audit('resume_queue', 'queue ' || p_queue, p_actor, p_reason,
    jsonb_build_object('result', result));
end
$$;

comment on function taskq.resume_queue is
  'Resume a paused queue and wake its workers.';
