-- Raise jobs that have waited too long to the highest priority that waits in their queue.
--
-- Only in queues with `aging`, and only jobs that have been due for longer than that. Being the
-- oldest there, they are claimed first. The claim itself knows nothing of it. A held job is left
-- alone: among the jobs of its key the highest priority goes first, however long that lasts.
--
-- Arguments: p_limit 1 to 10,000 jobs.
-- Returns: how many were raised.
-- Locks: ready rows, skipping locked ones; one pass at a time, another returns 0.
-- Raises: TQ422 bad input.
-- Called by: workers, housekeep.
create or replace function taskq.age(p_limit int = 1000)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'  -- a day is 24 hours, in a session of any zone
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_now      constant timestamptz := taskq.clock();
  v_queue    taskq.queues;
  v_highest  int;
  v_priority int;
  v_moved    int;
  v_count    int := 0;
begin
  if not taskq.start_pass('age', p_limit) then
    return 0;
  end if;
  for v_queue in select q.* from taskq.queues q where q.aging is not null order by q.name loop
    v_highest := null;
    v_priority := 32768;
    while v_count < p_limit loop
      select r.priority into v_priority
      from taskq.ready r
      where r.queue = v_queue.name and r.hold is null and r.priority < v_priority
      order by r.priority desc
      limit 1;
      exit when not found;
      v_highest := coalesce(v_highest, v_priority);
      continue when v_priority = v_highest;

      update taskq.ready r set priority = v_highest
      where r.id = any (array(
        select o.id from taskq.ready o
        where o.queue = v_queue.name and o.hold is null and o.priority = v_priority
          and o.scheduled_at <= v_now - v_queue.aging
        order by o.scheduled_at, o.id
        limit p_limit - v_count
        for update skip locked));
      get diagnostics v_moved = row_count;
      v_count := v_count + v_moved;
    end loop;
  end loop;
  return v_count;
end
$$;

comment on function taskq.age is
  'Raise jobs that have waited too long to the highest priority that waits in their queue.';
