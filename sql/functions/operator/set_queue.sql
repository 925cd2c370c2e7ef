-- Set the policy of a queue: what a job gets that names none of its own.
--
-- Stamped on jobs at enqueue (retention: when they end), so an edit never changes jobs that
-- are already there.
--
-- Arguments: p_queue; a policy left null stays as it is; bounds as in enqueue, retention 0 to
--   3,660 days; p_reset a list of policy names to set back to the built-in default; p_actor,
--   null = the session's role; p_reason; p_max_depth: an enqueue that would make more jobs wait is
--   refused, meant for up to 10,000, since each enqueue counts them; p_aging: who has been due
--   for so long is raised to the highest priority that waits, see age.
-- Returns: queue; version, which grows with every edit.
-- Locks: the queue's row, waits.
-- Raises: TQ422 bad input.
-- Called by: operators.
create or replace function taskq.set_queue(
  p_queue               text,
  p_max_attempts        int = null,
  p_backoff             interval = null,
  p_backoff_max         interval = null,
  p_lease               interval = null,
  p_ttl                 interval = null,
  p_retention_succeeded interval = null,
  p_retention_cancelled interval = null,
  p_retention_failed    interval = null,
  p_actor               text = null,
  p_reason              text = null,
  p_reset               text[] = '{}',
  p_max_depth           int = null,
  p_aging               interval = null,
  out queue             text,
  out version           int
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_known constant text[] collate "default" := array[
    'max_attempts', 'backoff', 'backoff_max', 'lease', 'ttl', 'retention_succeeded',
    'retention_cancelled', 'retention_failed', 'max_depth', 'aging'];
  v_now   constant timestamptz := taskq.clock();
  v_reset constant text[] collate "default" := coalesce(p_reset, '{}');
  v_fault text;
begin
  -- the bounds of a policy are those of a job: let the one check speak
  perform taskq.check_jobs(p_queue collate "default", array[row('set_queue', null, null, null, null, null, null,
    p_max_attempts, p_backoff, p_backoff_max, p_lease, p_ttl, null, null, null, null, null)::taskq.new_job]);
  v_fault := case
    when not taskq.fits(p_retention_succeeded, '0', '3660 days')
      or not taskq.fits(p_retention_cancelled, '0', '3660 days')
      or not taskq.fits(p_retention_failed, '0', '3660 days')
      then 'a retention is outside 0 to 3660 days'
    when p_max_depth not between 1 and 1000000000 then format('max_depth %s is outside 1 to 1000000000', p_max_depth)
    when not taskq.fits(p_aging, '1 microsecond', '366 days') then format('aging %s is outside 0 to 366 days', p_aging)
    when not v_reset <@ v_known
      then 'p_reset may name ' || array_to_string(v_known, ', ')
  end;
  if v_fault is not null then
    raise exception using errcode = 'TQ422', message = v_fault, detail = 'queue ' || p_queue;
  end if;

  queue := p_queue;
  insert into taskq.queues as q (
    name, max_attempts, backoff, backoff_max, lease, ttl, retention_succeeded,
    retention_cancelled, retention_failed, max_depth, aging, updated_at)
  values (
    p_queue, p_max_attempts, p_backoff, p_backoff_max, p_lease, p_ttl, p_retention_succeeded,
    p_retention_cancelled, p_retention_failed, p_max_depth, p_aging, v_now)
  on conflict (name) do update set
    version = q.version + 1,
    max_attempts = coalesce(excluded.max_attempts, case when not 'max_attempts' = any (v_reset) then q.max_attempts end),
    backoff = coalesce(excluded.backoff, case when not 'backoff' = any (v_reset) then q.backoff end),
    backoff_max = coalesce(excluded.backoff_max, case when not 'backoff_max' = any (v_reset) then q.backoff_max end),
    lease = coalesce(excluded.lease, case when not 'lease' = any (v_reset) then q.lease end),
    ttl = coalesce(excluded.ttl, case when not 'ttl' = any (v_reset) then q.ttl end),
    retention_succeeded = coalesce(excluded.retention_succeeded,
      case when not 'retention_succeeded' = any (v_reset) then q.retention_succeeded end),
    retention_cancelled = coalesce(excluded.retention_cancelled,
      case when not 'retention_cancelled' = any (v_reset) then q.retention_cancelled end),
    retention_failed = coalesce(excluded.retention_failed,
      case when not 'retention_failed' = any (v_reset) then q.retention_failed end),
    aging = coalesce(excluded.aging, case when not 'aging' = any (v_reset) then q.aging end),
    max_depth = coalesce(excluded.max_depth, case when not 'max_depth' = any (v_reset) then q.max_depth end),
    updated_at = v_now
  returning q.version into set_queue.version;
  perform taskq.write_audit('set_queue', 'queue ' || p_queue, p_actor, p_reason,
    jsonb_build_object('version', version));
end
$$;

comment on function taskq.set_queue is
  'Set the policy of a queue: what a job gets that names none of its own.';
