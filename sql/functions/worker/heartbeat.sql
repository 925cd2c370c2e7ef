-- Renew the leases of a worker's attempts, store their checkpoints, deliver cancel requests.
--
-- One call per worker and beat for all its attempts. Never waits: a row that somebody has
-- locked (a settle, psql) is `busy`, neither renewed nor lost. An attempt is `lost` only when
-- a plain read finds no running row with its fence, and such a row never comes back. A lease
-- that ran out but that nobody took back is revived.
--
-- Arguments: p_worker_id, named in errors; p_job_ids and p_attempt_ids of equal length, up
--   to 10,000; p_lease 0.1 s to 1 day, null = each attempt's own; p_progress a JSON object
--   job id -> checkpoint of those that changed, each up to 2 KiB: a larger one is not stored.
-- Returns: one row per attempt in input order: job_id, attempt_id, state ok | busy | lost,
--   cancel_requested, lease_expires_at (null unless ok), progress_stored (null = none sent,
--   false = too large or not ok: send it again).
-- Locks: running rows by id, skipping locked ones.
-- Raises: TQ422 bad input.
-- Called by: workers.
create or replace function taskq.heartbeat(
  p_worker_id   text,
  p_job_ids     bigint[],
  p_attempt_ids bigint[],
  p_lease       interval = null,
  p_progress    jsonb = null
)
returns table (
  job_id           bigint,
  attempt_id       bigint,
  state            text,
  cancel_requested boolean,
  lease_expires_at timestamptz,
  progress_stored  boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
as $$
#variable_conflict use_column
declare
  v_now   constant timestamptz := taskq.clock();
  v_fault text := case
    when p_worker_id is null or p_worker_id = '' or octet_length(p_worker_id) > 255
      then 'p_worker_id must be 1 to 255 bytes'
    when p_job_ids is null or p_attempt_ids is null
      or cardinality(p_job_ids) <> cardinality(p_attempt_ids)
      then 'p_job_ids and p_attempt_ids must be lists of equal length'
    when cardinality(p_job_ids) > 10000
      then format('%s attempts in one beat are over the cap of 10000', cardinality(p_job_ids))
    when array_ndims(p_job_ids) > 1 or array_ndims(p_attempt_ids) > 1
      or array_position(p_job_ids, null) is not null or array_position(p_attempt_ids, null) is not null
      then 'p_job_ids and p_attempt_ids must be plain lists without null'
    when not taskq.fits(p_lease, '0.1 s', '1 day')
      then format('lease %s is outside 0.1 s to 1 day', p_lease)
    when jsonb_typeof(p_progress) <> 'object'
      then format('p_progress must be a JSON object, not %s', jsonb_typeof(p_progress))
  end;
begin
  if v_fault is not null then
    raise exception using errcode = 'TQ422', message = v_fault,
      detail = format('worker %s', taskq.clip(p_worker_id, 255));
  end if;

  return query
  with asked as materialized (
    select t.job_id, t.attempt_id, t.n, p_progress -> t.job_id::text as checkpoint
    from unnest(p_job_ids, p_attempt_ids) with ordinality as t (job_id, attempt_id, n)
  ),
  seen as materialized (
    select r.id, r.attempt_id, r.cancel_requested_at
    from taskq.running r
    where r.id = any (p_job_ids)
  ),
  locked as materialized (
    select r.id, r.attempt_id
    from taskq.running r
    where r.id = any (p_job_ids)
    order by r.id
    for update skip locked
  ),
  renewed as (
    update taskq.running r
    set lease_expires_at = v_now + coalesce(p_lease, r.lease),
        progress = case when octet_length(a.checkpoint::text) <= 2048 then a.checkpoint else r.progress end
    from locked l
    join asked a on a.job_id = l.id and a.attempt_id = l.attempt_id
    where r.id = l.id and r.id = any (p_job_ids)
    returning r.id, r.attempt_id, r.lease_expires_at, r.cancel_requested_at
  )
  select a.job_id, a.attempt_id,
    case when b.id is not null then 'ok' when s.id is not null then 'busy' else 'lost' end,
    coalesce(b.cancel_requested_at, s.cancel_requested_at) is not null,
    b.lease_expires_at,
    case when a.checkpoint is not null then b.id is not null and octet_length(a.checkpoint::text) <= 2048 end
  from asked a
  left join renewed b on b.id = a.job_id and b.attempt_id = a.attempt_id
  left join seen s on s.id = a.job_id and s.attempt_id = a.attempt_id
  order by a.n;
end
$$;

comment on function taskq.heartbeat is
  'Renew the leases of a worker''s attempts, store their checkpoints, deliver cancel requests.';
