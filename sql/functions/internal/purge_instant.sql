-- Compute when retention may delete a job that ends now, at least 10 minutes from now.
--
-- No SET clause, and stable as its sum is, so that it inlines.
--
-- Arguments: p_status of the ended job; the queue's retentions, null = the default (2 days
--   for succeeded and cancelled, 30 days for failed); p_now.
-- Returns: timestamptz.
-- Locks: none.
-- Raises: nothing.
-- Called by: finish, finish_completed, finish_ready.
create or replace function taskq.purge_instant(
  p_status    text,
  p_succeeded interval,
  p_cancelled interval,
  p_failed    interval,
  p_now       timestamptz
)
returns timestamptz
language sql
stable
parallel safe
as $$
  select p_now + greatest(
    interval '10 minutes',
    case p_status
      when 'succeeded' then coalesce(p_succeeded, interval '2 days')
      when 'cancelled' then coalesce(p_cancelled, interval '2 days')
      else coalesce(p_failed, interval '30 days')
    end)
$$;

comment on function taskq.purge_instant is
  'Compute when retention may delete a job that ends now, at least 10 minutes from now.';
