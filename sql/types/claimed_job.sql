-- A job as claim hands it to a worker. Part of the contract: columns are only ever added,
-- and at the end.
create type taskq.claimed_job as (
  job_id           bigint,
  attempt_id       bigint,       -- the fence of this attempt
  queue            text,
  task             text,
  payload          jsonb,
  headers          jsonb,        -- null = none
  progress         jsonb,        -- the last checkpoint, null = none
  priority         smallint,
  attempt_count    int,          -- this attempt included
  failure_count    int,
  max_attempts     int,
  expiry_streak    int,          -- above 0: a suspect, it may have killed its process
  scheduled_at     timestamptz,
  created_at       timestamptz,
  lease            interval,     -- what a beat renews by
  lease_expires_at timestamptz,
  concurrency_key  text
);
