-- Compute how long a job waits after its failures: base * 2^(failures - 1), capped, +-15 %.
--
-- In floating point with a bounded exponent, so that no base, cap or count overflows. A base
-- of 0 means at once. No SET clause, so that it inlines.
--
-- Arguments: p_backoff the base; p_backoff_max the cap; p_failures counted from 1.
-- Returns: interval, never negative, at most 1.15 times the cap.
-- Locks: none.
-- Raises: nothing.
-- Called by: settle_attempts.
create or replace function taskq.backoff_delay(p_backoff interval, p_backoff_max interval, p_failures int)
returns interval
language sql
volatile
as $$
  select make_interval(secs =>
    least(
      extract(epoch from p_backoff)::double precision
        * power(2::double precision, least(greatest(p_failures, 1) - 1, 60)),
      extract(epoch from p_backoff_max)::double precision
    ) * (0.85 + 0.3 * random()))
$$;

comment on function taskq.backoff_delay is
  'Compute how long a job waits after its failures: base * 2^(failures - 1), capped, +-15 %.';
