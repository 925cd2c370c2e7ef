-- Announce a worker: at its start, every 30 s, and at its stop.
--
-- For people and for stop requests. Nothing decides by presence whether a job is alive.
--
-- Arguments: p_worker_id unique per process start; p_info a JSON object up to 8 KiB with
--   queues (a list of names), state, host, pid, version, slots; state "stopped" removes
--   the row.
-- Returns: stop_requested; paused_queues, those of its queues that are paused.
-- Locks: its own workers row, waits; at its stop its sleepers row, too.
-- Raises: TQ422 bad input.
-- Called by: workers.
create or replace function taskq.announce(
  p_worker_id        text,
  p_info             jsonb,
  out stop_requested boolean,
  out paused_queues  text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  if p_worker_id is null or p_worker_id = '' or octet_length(p_worker_id) > 255 then
    raise exception using errcode = 'TQ422', message = 'p_worker_id must be 1 to 255 bytes';
  end if;
  if p_info is null or jsonb_typeof(p_info) <> 'object' or octet_length(p_info::text) > 8192 then
    raise exception using errcode = 'TQ422',
      message = format('p_info of worker %s must be a JSON object of at most 8192 bytes', p_worker_id);
  end if;

  if p_info ->> 'state' = 'stopped' then
    delete from taskq.workers w where w.worker_id = p_worker_id collate "default"
    returning w.stop_requested into announce.stop_requested;
    delete from taskq.sleepers s where s.worker_id = p_worker_id collate "default";
  else
    insert into taskq.workers as w (worker_id, info, started_at, seen_at)
    values (p_worker_id, p_info, v_now, v_now)
    on conflict (worker_id) do update set info = excluded.info, seen_at = excluded.seen_at
    returning w.stop_requested into announce.stop_requested;
  end if;
  stop_requested := coalesce(stop_requested, false);

  paused_queues := array(
    select q.name from taskq.queues q
    where q.paused_at is not null
      and q.name in (
        select jsonb_array_elements_text(p_info -> 'queues')
        where jsonb_typeof(p_info -> 'queues') = 'array')
    order by q.name);
end
$$;

comment on function taskq.announce is
  'Announce a worker: at its start, every 30 s, and at its stop.';
