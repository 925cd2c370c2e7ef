-- Policy and pause of a queue. A queue needs no row: absence means the defaults, so that
-- the first enqueue of a new name never makes strangers wait for one row.
--
-- Written by set_queue, pause_queue and resume_queue. Read by enqueue (policy, stamped
-- on the job), claim (pause) and settle (retention).
create table taskq.queues (
  name                text not null primary key,
  version             int not null default 1,     -- grows with every edit
  paused_at           timestamptz,                -- null = claims are served
  max_attempts        int,                        -- null in a policy column = the built-in default
  backoff             interval,
  backoff_max         interval,
  lease               interval,
  ttl                 interval,
  aging               interval,                   -- null = what waits keeps its priority
  max_depth           int,                        -- null = no bound
  retention_succeeded interval,
  retention_cancelled interval,
  retention_failed    interval,
  updated_at          timestamptz not null
);
