-- Read the row of a queue, for what is about to be put into it.
--
-- Arguments: p_queue.
-- Returns: its row; all null but the name where it has none.
-- Locks: none.
-- Raises: TQ001 a queue without a row where queues are strict.
-- Called by: store_jobs, store_job.
create or replace function taskq.queue_policy(p_queue text)
returns taskq.queues
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue taskq.queues;
begin
  select * into v_queue from taskq.queues q where q.name = p_queue;
  if not found then
    if (select s.strict_queues from taskq.settings s) then
      raise exception using errcode = 'TQ001', message = format('no queue "%s"', p_queue),
        hint = 'Queues are strict here: make it with set_queue first.';
    end if;
    v_queue.name := p_queue;
  end if;
  return v_queue;
end
$$;

comment on function taskq.queue_policy is
  'Read the row of a queue, for what is about to be put into it.';
