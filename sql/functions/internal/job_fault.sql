-- Say what of a request is outside its bounds: the first of them, its size and its cap.
--
-- Sizes are octet_length of the jsonb as text. No SET clause, so that it inlines: for a row whose
-- fields are columns, as in check_jobs, each test is then one of those columns.
--
-- Arguments: p_job, null fields are absent.
-- Returns: text; null for a good one.
-- Locks: none.
-- Raises: nothing.
-- Called by: check_jobs, store_job.
create or replace function taskq.job_fault(p_job taskq.new_job)
returns text
language sql
stable
as $$
  select
    case
      when (p_job).task is null or (p_job).task = '' then 'a task name is required'
      when octet_length((p_job).task) > 120 then format('a task name of %s bytes is over the cap of 120', octet_length((p_job).task))
      when (p_job).task ~ E'[\x01-\x1f\x7f]' then 'a task name must not contain control characters'
      when jsonb_typeof((p_job).payload) <> 'object' then format('payload must be a JSON object, not %s', jsonb_typeof((p_job).payload))
      when octet_length((p_job).payload::text) > 65536 then format('a payload of %s bytes is over the cap of 65536', octet_length((p_job).payload::text))
      when jsonb_typeof((p_job).headers) <> 'object' then format('headers must be a JSON object, not %s', jsonb_typeof((p_job).headers))
      when octet_length((p_job).headers::text) > 8192 then format('headers of %s bytes are over the cap of 8192', octet_length((p_job).headers::text))
      when (p_job).priority not between -32768 and 32767 then format('priority %s is outside -32768 to 32767', (p_job).priority)
      when (p_job).scheduled_at is not null and (p_job).delay is not null then 'scheduled_at and delay exclude each other'
      when not isfinite((p_job).scheduled_at) or (p_job).scheduled_at > taskq.clock() + interval '366 days'
        then format('scheduled_at %s is later than 366 days from now or infinite', (p_job).scheduled_at)
      when (p_job).scheduled_at < timestamptz '1970-01-01 00:00+00' then format('scheduled_at %s is earlier than 1970', (p_job).scheduled_at)
      when not taskq.fits((p_job).delay, '0', '366 days') then format('delay %s is outside 0 to 366 days', (p_job).delay)
      when (p_job).unique_key = '' then 'unique_key must not be empty; null means none'
      when octet_length((p_job).unique_key) > 255 then format('a unique_key of %s bytes is over the cap of 255', octet_length((p_job).unique_key))
      when (p_job).concurrency_key = '' then 'concurrency_key must not be empty; null means none'
      when octet_length((p_job).concurrency_key) > 255 then format('a concurrency_key of %s bytes is over the cap of 255', octet_length((p_job).concurrency_key))
      when (p_job).max_attempts not between 1 and 100000 then format('max_attempts %s is outside 1 to 100000', (p_job).max_attempts)
      when not taskq.fits((p_job).backoff, '0', '366 days') then format('backoff %s is outside 0 to 366 days', (p_job).backoff)
      when not taskq.fits((p_job).backoff_max, '0', '366 days') then format('backoff_max %s is outside 0 to 366 days', (p_job).backoff_max)
      when not taskq.fits((p_job).lease, '0.1 s', '1 day') then format('lease %s is outside 0.1 s to 1 day', (p_job).lease)
      when not taskq.fits((p_job).ttl, '1 microsecond', '366 days') then format('ttl %s is outside 0 to 366 days', (p_job).ttl)
      when (p_job).unique_mode not in ('keep', 'replace', 'replace_keep_schedule')
        then format('unique_mode must be keep, replace or replace_keep_schedule, not "%s"', taskq.clip((p_job).unique_mode, 60))
      when (p_job).unique_scope not in ('live', 'waiting') then format('unique_scope must be live or waiting, not "%s"', taskq.clip((p_job).unique_scope, 60))
      when not taskq.fits((p_job).unique_for, '1 microsecond', '366 days') then format('unique_for %s is outside 0 to 366 days', (p_job).unique_for)
      when (p_job).unique_key is null and ((p_job).unique_mode is not null or (p_job).unique_scope is not null or (p_job).unique_for is not null)
        then 'unique_mode, unique_scope and unique_for need a unique_key'
      when (p_job).ordered and (p_job).concurrency_key is null then 'an ordered job needs a concurrency_key'
      when (p_job).ordered and (p_job).unique_mode like 'replace%' then 'an ordered job keeps its place: unique_mode must be keep'
    end
$$;

comment on function taskq.job_fault is
  'Say what of a request is outside its bounds: the first of them, its size and its cap.';
