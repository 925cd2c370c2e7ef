-- List jobs, newest first, a page at a time.
--
-- One statement over all places, so a job that moves meanwhile is shown once. Pages are by
-- key: pass the last id of a page as p_before_id. Walks the ids downwards until the page is
-- full, so the page of a rare queue or task reads what lies above it.
--
-- Arguments: p_queue, p_task, p_status: null = any; p_limit 1 to 1000; p_before_id null = from
--   the newest.
-- Returns: job_view rows by id, descending.
-- Locks: none.
-- Raises: TQ422 bad input.
-- Called by: everybody who looks.
create or replace function taskq.list_jobs(
  p_queue     text = null,
  p_task      text = null,
  p_status    text = null,
  p_limit     int = 50,
  p_before_id bigint = null
)
returns setof taskq.job_view
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_limit is null or p_limit not between 1 and 1000 then
    raise exception using errcode = 'TQ422',
      message = format('p_limit %s is outside 1 to 1000', coalesce(p_limit::text, 'null'));
  end if;
  if p_status collate "default" not in ('blocked', 'queued', 'running', 'succeeded', 'failed', 'cancelled') then
    raise exception using errcode = 'TQ422', message = format('no status "%s"', taskq.clip(p_status, 60)),
      hint = 'One of blocked, queued, running, succeeded, failed, cancelled.';
  end if;

  return query
  select v.*
  from (
    (select j.id from taskq.jobs j
     where p_status is null
       and (p_queue is null or j.queue = p_queue collate "default")
       and (p_task is null or j.task = p_task collate "default")
       and (p_before_id is null or j.id < p_before_id)
     order by j.id desc limit p_limit)
    union all
    (select r.id from taskq.ready r
     where (p_status = 'queued' and (r.hold is null or r.hold in ('key', 'order', 'expired'))
            or p_status = 'blocked' and r.hold not in ('key', 'order', 'expired'))
       and (p_queue is null or r.queue = p_queue collate "default")
       and (p_task is null or r.task = p_task collate "default")
       and (p_before_id is null or r.id < p_before_id)
     order by r.id desc limit p_limit)
    union all
    (select x.id from taskq.running x
     where p_status = 'running'
       and (p_queue is null or x.queue = p_queue collate "default")
       and (p_task is null or x.task = p_task collate "default")
       and (p_before_id is null or x.id < p_before_id)
     order by x.id desc limit p_limit)
    union all
    (select f.id from taskq.finished f
     where f.status = p_status collate "default"
       and (p_queue is null or f.queue = p_queue collate "default")
       and (p_task is null or f.task = p_task collate "default")
       and (p_before_id is null or f.id < p_before_id)
     order by f.id desc limit p_limit)
  ) page
  join taskq.job_view v on v.id = page.id
  order by v.id desc;
end
$$;

comment on function taskq.list_jobs is
  'List jobs, newest first, a page at a time.';
