-- Record what an operator did.
--
-- Arguments: p_verb; p_target what it was done to; p_actor who (null = the session's role);
--   p_reason why, cut to 1 KiB; p_detail more, or null.
-- Returns: nothing.
-- Locks: none.
-- Raises: nothing.
-- Called by: every operator verb.
create or replace function taskq.write_audit(
  p_verb   text,
  p_target text,
  p_actor  text,
  p_reason text,
  p_detail jsonb = null
)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into taskq.audit (at, actor, session_role, verb, target, reason, detail)
  values (taskq.clock(), taskq.clip(coalesce(p_actor, session_user), 255), session_user,
          p_verb, p_target, taskq.clip(p_reason, 1024), p_detail)
$$;

comment on function taskq.write_audit is
  'Record what an operator did.';
