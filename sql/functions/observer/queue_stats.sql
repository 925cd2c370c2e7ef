-- Count what stands in each queue, at a bounded cost.
--
-- Counts stop at 10,001, which means more than 10,000; ready, delayed, the oldest age and the
-- next due time are of the first 10,001 jobs in claim order, held of the first 10,001 held jobs
-- of all queues. Queues are found by stepping through the indexes from name to name.
--
-- Arguments: p_queue one queue, null = all that have a row, a live job or a failed one.
-- Returns: by name: queue, paused, ready (due), delayed, held (their concurrency key is full, an
--   older job of an ordered key is live, or their time to live is over), running, failed,
--   oldest_ready_age (null = none), next_due_at (null = none).
-- Locks: none.
-- Raises: nothing.
-- Called by: everybody who looks.
create or replace function taskq.queue_stats(p_queue text = null)
returns table (
  queue            text,
  paused           boolean,
  ready            bigint,
  delayed          bigint,
  held             bigint,
  running          bigint,
  failed           bigint,
  oldest_ready_age interval,
  next_due_at      timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now constant timestamptz := taskq.clock();
begin
  return query
  with recursive waiting (name) as (
    (select r.queue from taskq.ready r where r.hold is null order by r.queue limit 1)
    union all
    select (select r.queue from taskq.ready r where r.hold is null and r.queue > w.name order by r.queue limit 1)
    from waiting w where w.name is not null
  ),
  dead (name) as (
    (select f.queue from taskq.finished f where f.status = 'failed' order by f.queue limit 1)
    union all
    select (select f.queue from taskq.finished f where f.status = 'failed' and f.queue > d.name order by f.queue limit 1)
    from dead d where d.name is not null
  ),
  hoard as materialized (
    select h.queue as name
    from (select r.queue, r.hold from taskq.ready r where (r.hold is null) is false limit 10001) h
    where h.hold in ('key', 'order', 'expired')
  ),
  named (name) as (
    select p_queue collate "default" where p_queue is not null
    union
    select n.name
    from (
      select q.name from taskq.queues q
      union all select w.name from waiting w
      union all select d.name from dead d
      union all select x.queue from (select x.queue from taskq.running x limit 10001) x
      union all select h.name from hoard h
    ) n
    where p_queue is null and n.name is not null
  )
  select
    n.name,
    exists (select from taskq.queues q where q.name = n.name and q.paused_at is not null),
    head.ready,
    head.delayed,
    (select count(*) from hoard h where h.name = n.name),
    (select count(*) from (select from taskq.running x where x.queue = n.name limit 10001) x),
    (select count(*) from (select from taskq.finished f where f.status = 'failed' and f.queue = n.name limit 10001) f),
    v_now - head.oldest,
    head.next_due
  from named n
  cross join lateral (
    select
      count(*) filter (where h.scheduled_at <= v_now) as ready,
      count(*) filter (where h.scheduled_at > v_now) as delayed,
      min(h.scheduled_at) filter (where h.scheduled_at <= v_now) as oldest,
      min(h.scheduled_at) filter (where h.scheduled_at > v_now) as next_due
    from (
      select r.scheduled_at
      from taskq.ready r
      where r.queue = n.name and r.hold is null
      order by r.priority desc, r.scheduled_at, r.id
      limit 10001
    ) h
  ) head
  order by n.name;
end
$$;

comment on function taskq.queue_stats is
  'Count what stands in each queue, at a bounded cost.';
