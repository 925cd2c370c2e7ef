-- Say whether enqueue refuses a queue that has no row, so that a typo makes no new queue.
--
-- Arguments: p_strict; p_actor, null = the session's role; p_reason.
-- Returns: strict as it is now.
-- Locks: the settings row, waits.
-- Raises: TQ422 null.
-- Called by: operators.
create or replace function taskq.set_strict_queues(
  p_strict   boolean,
  p_actor    text = null,
  p_reason   text = null,
  out strict boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_strict is null then
    raise exception using errcode = 'TQ422', message = 'p_strict must be true or false';
  end if;
  update taskq.settings s set strict_queues = p_strict
  returning s.strict_queues into "strict";  -- quoted: a word of plpgsql
  perform taskq.write_audit('set_strict_queues', 'schema', p_actor, p_reason,
    jsonb_build_object('strict', strict));
end
$$;

comment on function taskq.set_strict_queues is
  'Say whether enqueue refuses a queue that has no row, so that a typo makes no new queue.';
