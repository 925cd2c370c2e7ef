-- Say whether a span lies between two bounds, and in each of its parts too.
--
-- An interval is compared by its sum, where a month is 30 days, but added to an instant part by
-- part: one of 70 million months and as many days back is a day long, and its sum with an instant
-- is out of range. No SET clause, so that it inlines.
--
-- Arguments: p_span; p_least and p_most up to ten years.
-- Returns: boolean; null for null.
-- Locks: none.
-- Raises: nothing.
-- Called by: job_fault, check_claim, heartbeat, settle_attempts, set_queue.
create or replace function taskq.fits(p_span interval, p_least interval, p_most interval)
returns boolean
language sql
immutable
parallel safe
as $$
  select p_span between p_least and p_most
    and date_part('year', p_span) between -20 and 20 and date_part('day', p_span) between -9999 and 9999
$$;

comment on function taskq.fits is
  'Say whether a span lies between two bounds, and in each of its parts too.';
