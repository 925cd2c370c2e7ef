-- Run every housekeeping pass once, take-back first: for cron, where no worker runs.
--
-- Arguments: p_limit 1 to 10,000 jobs for each pass.
-- Returns: taken_back, expired, pruned, raised: how many jobs.
-- Locks: as the passes.
-- Raises: TQ422 bad input.
-- Called by: people, cron, the command line.
create or replace function taskq.housekeep(
  p_limit        int = 1000,
  out taken_back int,
  out expired    int,
  out pruned     int,
  out raised     int
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  select count(*) into taken_back from taskq.take_back(p_limit);
  expired := taskq.expire_ttl(p_limit);
  pruned := taskq.prune(p_limit);
  raised := taskq.age(p_limit);
end
$$;

comment on function taskq.housekeep is
  'Run every housekeeping pass once, take-back first: for cron, where no worker runs.';
