-- Say what became of an attempt, after waiting for a commit in flight.
--
-- For a worker that does not know whether its commit arrived: an unfinished transaction that
-- ends the attempt holds the row lock, so once the lock is had, that transaction has ended.
--
-- Arguments: p_job_id, p_attempt_id.
-- Returns: state running (the fence still holds) | settled (by its own worker) | lost (taken
--   back, pruned or unknown) | busy (the row stayed locked for 3 s: ask again); status where
--   the attempt landed, running, or null.
-- Locks: the running row, waits up to 3 s.
-- Raises: nothing.
-- Called by: workers.
create or replace function taskq.attempt_state(
  p_job_id     bigint,
  p_attempt_id bigint,
  out state    text,
  out status   text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '3s'
as $$
declare
  v_verb text;
begin
  begin
    perform from taskq.running r
    where r.id = p_job_id and r.attempt_id = p_attempt_id
    for update;
  exception when lock_not_available then
    state := 'busy';
    return;
  end;
  if found then
    state := 'running';
    status := 'running';
    return;
  end if;

  select past.verb, past.status into v_verb, attempt_state.status
  from (
    select f.verb, f.status from taskq.finished f
    where f.id = p_job_id and f.attempt_id = p_attempt_id
    union all
    select a.verb, a.status from taskq.attempts a
    where a.job_id = p_job_id and a.attempt_id = p_attempt_id
  ) past
  limit 1;
  state := case when v_verb is null or v_verb = 'take_back' then 'lost' else 'settled' end;
  if state = 'lost' then
    status := null;
  end if;
end
$$;

comment on function taskq.attempt_state is
  'Say what became of an attempt, after waiting for a commit in flight.';
