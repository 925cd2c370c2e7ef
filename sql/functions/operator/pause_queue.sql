-- Pause a queue: it takes in jobs and hands none out, until resume_queue.
--
-- Running jobs go on. A claim that is under way may still hand out what it has locked.
--
-- Arguments: p_queue; p_actor, null = the session's role; p_reason.
-- Returns: queue; result paused | already_paused.
-- Locks: the queue's row, waits.
-- Raises: TQ422 a bad name.
-- Called by: operators.
create or replace function taskq.pause_queue(
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
  insert into taskq.queues as q (name, paused_at, updated_at)
  values (p_queue, v_now, v_now)
  on conflict (name) do update
    set paused_at = v_now, version = q.version + 1, updated_at = v_now
    where q.paused_at is null;
  result := case when found then 'paused' else 'already_paused' end;
  perform taskq.write_audit('pause_queue', 'queue ' || p_queue, p_actor, p_reason,
    jsonb_build_object('result', result));
end
$$;

comment on function taskq.pause_queue is
  'Pause a queue: it takes in jobs and hands none out, until resume_queue.';
