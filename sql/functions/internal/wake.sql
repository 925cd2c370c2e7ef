-- Notify the workers of a queue, unless that may be skipped and nobody would sleep too long.
--
-- Notifying commits are serialised by PostgreSQL, so a call on the client's own autocommit
-- connection looks for sleepers first. Who goes to sleep registers and polls again at 0,
-- 100 ms and 1 s, which covers an enqueue that looked before the sleeper was visible.
-- Duplicates within a transaction are folded by PostgreSQL itself.
--
-- Arguments: p_queue; p_due when the earliest new job is to run; p_may_skip false inside a
--   caller's transaction, which may commit long after this look.
-- Returns: nothing.
-- Locks: none.
-- Raises: nothing.
-- Called by: store_jobs, store_job, replace_jobs, requeue, requeue_finished, resume_queue.
create or replace function taskq.wake(p_queue text, p_due timestamptz, p_may_skip boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_may_skip and not exists (
    select from taskq.sleepers s
    where s.wakes_at > p_due and p_queue = any (s.queues)
  ) then
    return;
  end if;
  perform pg_notify('taskq.wake', p_queue);
end
$$;

comment on function taskq.wake is
  'Notify the workers of a queue, unless that may be skipped and nobody would sleep too long.';
