-- Refuse requests outside the bounds, naming the first bad one, its size and its cap.
--
-- One pass over the array: every check is a branch of one expression, and only a finding
-- costs more. Sizes are octet_length of the jsonb as text.
--
-- Arguments: p_queue; p_jobs, null fields are absent.
-- Returns: nothing.
-- Locks: none.
-- Raises: TQ422 with the ordinal in DETAIL.
-- Called by: store_jobs, set_queue (with the policy); pause_queue, resume_queue, purge_queue for
--   the name of the queue.
create or replace function taskq.check_jobs(p_queue text, p_jobs taskq.new_job[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ordinal bigint;
  v_fault   text;
begin
  if p_queue is null or p_queue = '' or octet_length(p_queue) > 120 or p_queue ~ E'[\x01-\x1f\x7f]' then
    raise exception using errcode = 'TQ422',
      message = case
        when p_queue is null or p_queue = '' then 'a queue name is required'
        when octet_length(p_queue) > 120 then format('a queue name of %s bytes is over the cap of 120', octet_length(p_queue))
        else 'a queue name must not contain control characters'
      end;
  end if;

  select j.n - 1, j.fault into v_ordinal, v_fault
  from (
    select n,
      case
        when task is null or task = '' then 'a task name is required'
        when octet_length(task) > 120 then format('a task name of %s bytes is over the cap of 120', octet_length(task))
        when task ~ E'[\x01-\x1f\x7f]' then 'a task name must not contain control characters'
        when jsonb_typeof(payload) <> 'object' then format('payload must be a JSON object, not %s', jsonb_typeof(payload))
        when octet_length(payload::text) > 65536 then format('a payload of %s bytes is over the cap of 65536', octet_length(payload::text))
        when jsonb_typeof(headers) <> 'object' then format('headers must be a JSON object, not %s', jsonb_typeof(headers))
        when octet_length(headers::text) > 8192 then format('headers of %s bytes are over the cap of 8192', octet_length(headers::text))
        when priority not between -32768 and 32767 then format('priority %s is outside -32768 to 32767', priority)
        when scheduled_at is not null and delay is not null then 'scheduled_at and delay exclude each other'
        when not isfinite(scheduled_at) or scheduled_at > taskq.clock() + interval '366 days'
          then format('scheduled_at %s is later than 366 days from now or infinite', scheduled_at)
        when scheduled_at < timestamptz '1970-01-01 00:00+00' then format('scheduled_at %s is earlier than 1970', scheduled_at)
        when not taskq.fits(delay, '0', '366 days') then format('delay %s is outside 0 to 366 days', delay)
        when unique_key = '' then 'unique_key must not be empty; null means none'
        when octet_length(unique_key) > 255 then format('a unique_key of %s bytes is over the cap of 255', octet_length(unique_key))
        when concurrency_key = '' then 'concurrency_key must not be empty; null means none'
        when octet_length(concurrency_key) > 255 then format('a concurrency_key of %s bytes is over the cap of 255', octet_length(concurrency_key))
        when max_attempts not between 1 and 100000 then format('max_attempts %s is outside 1 to 100000', max_attempts)
        when not taskq.fits(backoff, '0', '366 days') then format('backoff %s is outside 0 to 366 days', backoff)
        when not taskq.fits(backoff_max, '0', '366 days') then format('backoff_max %s is outside 0 to 366 days', backoff_max)
        when not taskq.fits(lease, '0.1 s', '1 day') then format('lease %s is outside 0.1 s to 1 day', lease)
        when not taskq.fits(ttl, '1 microsecond', '366 days') then format('ttl %s is outside 0 to 366 days', ttl)
        when unique_mode not in ('keep', 'replace', 'replace_keep_schedule')
          then format('unique_mode must be keep, replace or replace_keep_schedule, not "%s"', taskq.clip(unique_mode, 60))
        when unique_scope not in ('live', 'waiting') then format('unique_scope must be live or waiting, not "%s"', taskq.clip(unique_scope, 60))
        when not taskq.fits(unique_for, '1 microsecond', '366 days') then format('unique_for %s is outside 0 to 366 days', unique_for)
        when unique_key is null and (unique_mode is not null or unique_scope is not null or unique_for is not null)
          then 'unique_mode, unique_scope and unique_for need a unique_key'
        when ordered and concurrency_key is null then 'an ordered job needs a concurrency_key'
        when ordered and unique_mode like 'replace%' then 'an ordered job keeps its place: unique_mode must be keep'
      end as fault
    from unnest(p_jobs) with ordinality as t (
      task, payload, priority, scheduled_at, delay, unique_key, concurrency_key, max_attempts,
      backoff, backoff_max, lease, ttl, headers, unique_mode, unique_scope, unique_for, ordered, n)
  ) j
  where j.fault is not null
  limit 1;
  if found then
    raise exception using errcode = 'TQ422',
      message = case cardinality(p_jobs)
        when 1 then v_fault
        else format('the job at ordinal %s: %s', v_ordinal, v_fault)
      end,
      detail = format('ordinal %s', v_ordinal);
  end if;
end
$$;

comment on function taskq.check_jobs is
  'Refuse requests outside the bounds, naming the first bad one, its size and its cap.';
