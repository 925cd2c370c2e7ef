-- Every job that has not been started or waits for another attempt: due, delayed, snoozed,
-- backing off, or held.
--
-- Rows come from enqueue, requeue and redrive and leave by claim (to running) or
-- finish_ready (to finished). Updated for hold (hold_over, admit_keys, restore_keys, and what
-- they call) and priority (age), and rewritten by replace_jobs.
create table taskq.ready (
  id              bigint not null primary key,
  queue           text not null,
  task            text not null,
  priority        smallint not null,
  scheduled_at    timestamptz not null,   -- not claimed before this instant
  expires_at      timestamptz,            -- expire_ttl ends the job after this instant
  concurrency_key text,
  hold            text,                   -- null, or why it cannot be claimed: 'key' = its key is full,
                                          -- 'order' = an older job of its ordered key is live,
                                          -- 'expired' = expire_ttl is to end it
  -- state that travels with the job between the places
  attempt_count   int not null default 0, -- claims so far; never reset
  failure_count   int not null default 0, -- budget burnt
  expiry_streak   int not null default 0, -- leases that ran out in a row
  snooze_count    int not null default 0,
  progress        jsonb,                  -- the last checkpoint
  is_unique       boolean not null default false, -- a unique_keys row names this job
  is_ordered      boolean not null default false, -- jobs of its key run one after the other, by id
  watched         boolean not null default false
)
with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05
);

-- The claim: one range per queue and priority, in exactly the order of the claim.
create index ready_claim on taskq.ready (queue, priority desc, scheduled_at, id)
  where hold is null;

-- restore_keys: the best held rows of a key in each queue.
create index ready_held_key on taskq.ready (concurrency_key, queue, priority desc, scheduled_at, id)
  where hold = 'key';

-- restore_keys: the next job of an ordered key, and the one that is before it.
create index ready_order on taskq.ready (concurrency_key, id)
  where hold = 'order';
create index ready_order_head on taskq.ready (concurrency_key)
  where is_ordered and hold is distinct from 'order';

-- depth, queue_stats, purge_queue: the jobs of a queue that the claim index does not count. Collation and
-- condition keep it to those who repeat them: for the first held row of a key the planner would
-- walk through all held rows.
create index ready_held on taskq.ready (queue collate "C")
  where (hold is null) is false;

-- expire_ttl: the rows whose time is over.
create index ready_expiry on taskq.ready (expires_at)
  where expires_at is not null;
