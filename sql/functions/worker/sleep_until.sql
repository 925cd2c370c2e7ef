-- Register a worker that goes to sleep, so that producers know whether to notify.
--
-- After it the worker polls again at 0, 100 ms and 1 s: an enqueue that committed around
-- this moment may have looked before the row was there.
--
-- Arguments: p_worker_id up to 255 bytes; p_queues 1 to 100 names of up to 120 bytes, which it
--   serves; p_wakes_at when it polls by itself, finite, by the database's clock: clock() + the
--   duration.
-- Returns: nothing.
-- Locks: its own sleepers row.
-- Raises: TQ422 bad input.
-- Called by: workers.
create or replace function taskq.sleep_until(
  p_worker_id text,
  p_queues    text[],
  p_wakes_at  timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform taskq.check_claim(p_queues collate "default", p_worker_id collate "default", 1, null);
  if (select max(octet_length(q)) from unnest(p_queues) as q) > 120 then
    raise exception using errcode = 'TQ422', message = 'a name in p_queues is over the cap of 120 bytes';
  end if;
  if p_wakes_at is null or not isfinite(p_wakes_at) then
    raise exception using errcode = 'TQ422',
      message = format('p_wakes_at of worker %s is %s', p_worker_id, coalesce(p_wakes_at::text, 'null'));
  end if;
  insert into taskq.sleepers as s (worker_id, queues, wakes_at)
  values (p_worker_id, p_queues, p_wakes_at)
  on conflict (worker_id) do update set queues = excluded.queues, wakes_at = excluded.wakes_at;
end
$$;

comment on function taskq.sleep_until is
  'Register a worker that goes to sleep, so that producers know whether to notify.';
