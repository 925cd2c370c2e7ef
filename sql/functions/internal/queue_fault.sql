-- Say why a text cannot be the name of a queue.
--
-- No SET clause, so that it inlines.
--
-- Arguments: p_queue.
-- Returns: text; null for a good one.
-- Locks: none.
-- Raises: nothing.
-- Called by: check_jobs, store_job.
create or replace function taskq.queue_fault(p_queue text)
returns text
language sql
stable
as $$
  select case
    when p_queue is null or p_queue = '' then 'a queue name is required'
    when octet_length(p_queue) > 120 then format('a queue name of %s bytes is over the cap of 120', octet_length(p_queue))
    when p_queue ~ E'[\x01-\x1f\x7f]' then 'a queue name must not contain control characters'
  end
$$;

comment on function taskq.queue_fault is
  'Say why a text cannot be the name of a queue.';
