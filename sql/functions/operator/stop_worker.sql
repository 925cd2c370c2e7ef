-- Ask a worker to stop softly: it takes no more jobs and waits for those that it runs.
--
-- It is told by its next announcement, within 30 s, and at once when it listens: the notification
-- is a tab and its id, which is the name of no queue.
--
-- Arguments: p_worker_id; p_actor, null = the session's role; p_reason.
-- Returns: worker_id; result requested | already_requested.
-- Locks: the worker's row, waits.
-- Raises: TQ001 no such worker.
-- Called by: operators.
create or replace function taskq.stop_worker(
  p_worker_id   text,
  p_actor       text = null,
  p_reason      text = null,
  out worker_id text,
  out result    text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before boolean;
begin
  worker_id := p_worker_id;
  select w.stop_requested into v_before
  from taskq.workers w
  where w.worker_id = p_worker_id collate "default"
  for update;
  if not found then
    raise exception using errcode = 'TQ001',
      message = format('no worker %s', coalesce(taskq.clip(p_worker_id, 255), 'null')),
      hint = 'It has ended, or its id is another one: a worker has a new one at each start.';
  end if;
  update taskq.workers w set stop_requested = true where w.worker_id = p_worker_id collate "default" and not v_before;
  result := case when v_before then 'already_requested' else 'requested' end;
  perform pg_notify('taskq.wake', E'\t' || p_worker_id);
  perform taskq.write_audit('stop_worker', 'worker ' || p_worker_id, p_actor, p_reason,
    jsonb_build_object('result', result));
end
$$;

comment on function taskq.stop_worker is
  'Ask a worker to stop softly: it takes no more jobs and waits for those that it runs.';
