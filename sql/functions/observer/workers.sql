-- List the workers that are there, with what each last said of itself.
--
-- A worker that was not heard of for three times the interval at which it announces itself is
-- shown as silent: it was killed, it is cut off, or its machine sleeps. prune forgets it after a
-- day. Nothing decides by this whether a job is alive.
--
-- Arguments: p_worker_id one worker, null = all.
-- Returns: by started_at and worker_id: worker_id, host, pid, version, queues, slots, state (what it
--   announced, or silent), started_at, seen_at, running (jobs that it holds a lease of),
--   stop_requested, info (what else it announced); null or empty where it announced nothing usable.
-- Locks: none.
-- Raises: nothing.
-- Called by: everybody who looks.
create or replace function taskq.workers(p_worker_id text = null)
returns table (
  worker_id      text,
  host           text,
  pid            int,
  version        text,
  queues         text[],
  slots          int,
  state          text,
  started_at     timestamptz,
  seen_at        timestamptz,
  running        bigint,
  stop_requested boolean,
  info           jsonb
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now constant timestamptz := taskq.clock();
begin
  return query
  with held as materialized (
    select r.worker_id, count(*) as jobs from taskq.running r group by r.worker_id
  )
  -- whoever may announce writes what it likes: nothing is cast that does not look like it
  select
    w.worker_id,
    w.info ->> 'host',
    case when w.info ->> 'pid' ~ '^[0-9]{1,9}$' then (w.info ->> 'pid')::int end,
    w.info ->> 'version',
    array_remove(
      array(
        select jsonb_array_elements_text(w.info -> 'queues')
        where jsonb_typeof(w.info -> 'queues') = 'array'),
      null),
    case when w.info ->> 'slots' ~ '^[0-9]{1,9}$' then (w.info ->> 'slots')::int end,
    case
      when w.seen_at < v_now - 3 * make_interval(secs =>
        case
          when w.info ->> 'announce_every' ~ '^[0-9]{1,6}([.][0-9]{1,20})?$' then (w.info ->> 'announce_every')::float8
          else 30
        end) then 'silent'
      else w.info ->> 'state'
    end,
    w.started_at,
    w.seen_at,
    coalesce(h.jobs, 0),
    w.stop_requested,
    w.info - array['host', 'pid', 'version', 'queues', 'slots', 'state']
  from taskq.workers w
  left join held h on h.worker_id = w.worker_id
  where p_worker_id is null or w.worker_id = p_worker_id collate "default"
  order by w.started_at, w.worker_id;
end
$$;

comment on function taskq.workers is
  'List the workers that are there, with what each last said of itself.';
