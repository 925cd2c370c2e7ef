-- Prove that every job stands in exactly one place and that what belongs to it agrees.
--
-- Reads every table whole: for tests and for people, not for a request path.
--
-- Arguments: none.
-- Returns: job_id, problem; no row = all is well.
-- Locks: none.
-- Raises: nothing.
-- Called by: tests, people.
create or replace function taskq.check_integrity()
returns table (job_id bigint, problem text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  with place as (
    select id, 'ready' as name, is_unique from taskq.ready
    union all
    select id, 'running', is_unique from taskq.running
    union all
    select id, 'finished', is_unique from taskq.finished
  )
  select j.id, 'stands in no place'
  from taskq.jobs j
  where not exists (select from place p where p.id = j.id)
  union all
  select p.id, 'stands in several places: ' || string_agg(p.name, ', ' order by p.name)
  from place p
  group by p.id
  having count(*) > 1
  union all
  select p.id, format('stands in %s without a request in jobs', p.name)
  from place p
  where not exists (select from taskq.jobs j where j.id = p.id)
  union all
  select u.job_id, format('holds unique key "%s" of queue "%s" but is not live', u.key, u.queue)
  from taskq.unique_keys u
  where not u.free and not exists (
    select from place p
    where p.id = u.job_id and p.is_unique and (p.name <> 'finished' or u.expires_at is not null))
  union all
  select p.id, 'is marked unique but holds no key'
  from place p
  where p.is_unique and p.name <> 'finished'
    and not exists (select from taskq.unique_keys u where u.job_id = p.id)
    and not (p.name = 'running' and exists (  -- it counted until the start; a follower took it, and may have ended
      select from taskq.jobs j where j.id = p.id and j.unique_scope = 'waiting'))
  union all
  select u.job_id, format('unique key "%s" of queue "%s" is free, but its job has not been started', u.key, u.queue)
  from taskq.unique_keys u
  join taskq.ready r on r.id = u.job_id
  where u.free and r.is_unique
  union all
  select a.job_id, format('attempt %s belongs to no job', a.attempt_id)
  from taskq.attempts a
  where not exists (select from taskq.jobs j where j.id = a.job_id)
  union all
  select v.job_id, format('attempt %s is recorded %s times', v.attempt_id, count(*))
  from taskq.attempt_view v
  group by v.job_id, v.attempt_id
  having count(*) > 1
  union all
  select r.id, 'is held for a key but has none'
  from taskq.ready r
  where r.hold in ('key', 'order') and r.concurrency_key is null
  union all
  select min(r.id), format('waits in order of key "%s" for no job that is live', r.concurrency_key)
  from taskq.ready r
  where r.hold = 'order'
    and not exists (
      select from taskq.ready h
      where h.concurrency_key = r.concurrency_key and h.is_ordered and h.hold is distinct from 'order')
    and not exists (select from taskq.running x where x.concurrency_key = r.concurrency_key and x.is_ordered)
    and not exists (select from taskq.signals s where s.kind = 'key' and s.key = r.concurrency_key)
  group by r.concurrency_key
$$;

comment on function taskq.check_integrity is
  'Prove that every job stands in exactly one place and that what belongs to it agrees.';
