-- Jobs under a lease: one row per live attempt.
--
-- Rows come from claim and leave by requeue (to ready) or finish (to finished).
-- heartbeat updates lease_expires_at and progress in place: neither is in an index, and
-- the fillfactor leaves room, so a beat is a HOT update.
create table taskq.running (
  id                  bigint not null primary key,
  attempt_id          bigint not null,      -- the fence: drawn from the sequence by the claim
  queue               text not null,
  task                text not null,
  priority            smallint not null,
  scheduled_at        timestamptz not null,
  expires_at          timestamptz,
  concurrency_key     text,
  worker_id           text not null,
  claimed_at          timestamptz not null,
  lease               interval not null,    -- a beat renews by this much
  lease_expires_at    timestamptz not null, -- take_back may end the attempt after this instant
  cancel_requested_at timestamptz,          -- set by cancel_job, delivered by the next beat
  cancel_actor        text,
  cancel_reason       text,
  attempt_count       int not null,
  failure_count       int not null,
  expiry_streak       int not null,
  snooze_count        int not null,
  progress            jsonb,
  is_unique           boolean not null,
  is_ordered          boolean not null,
  watched             boolean not null
)
with (
  fillfactor = 60,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- admit_keys and restore_keys: how many of a key run now.
create index running_key on taskq.running (concurrency_key)
  where concurrency_key is not null;
