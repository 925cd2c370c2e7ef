-- Jobs that ended: append-only, until retention deletes them or a redrive puts them back. The
-- failed rows are the dead letter queue, in place.
--
-- Rows come from finish and finish_completed (an attempt ended the job) and finish_ready (a queued
-- job was cancelled or expired: attempt_id is null). The last attempt stands on the row itself.
create table taskq.finished (
  id              bigint not null primary key,
  queue           text not null,
  task            text not null,
  status          text not null check (status in ('succeeded', 'failed', 'cancelled')),
  outcome         text not null check (outcome in (
                    'success', 'retry_exhausted', 'non_retryable', 'poison', 'cancelled',
                    'cancelled_after_expiry', 'expired_ttl', 'dependency_failed')),
  result          jsonb,
  error           text,
  reason          text,                   -- free text of who cancelled, never parsed
  verb            text,                   -- the settle verb asked for; null = ended while queued
  attempt_id      bigint,                 -- its fence; null = ended while queued
  worker_id       text,
  claimed_at      timestamptz,
  finished_at     timestamptz not null,
  purge_at        timestamptz not null,   -- prune deletes the job after this instant
  priority        smallint not null,
  scheduled_at    timestamptz not null,
  expires_at      timestamptz,
  concurrency_key text,
  attempt_count   int not null,
  failure_count   int not null,
  expiry_streak   int not null,
  snooze_count    int not null,
  progress        jsonb,
  is_unique       boolean not null,       -- had a unique key
  is_ordered      boolean not null,
  watched         boolean not null
)
with (
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_insert_scale_factor = 0.1
);

-- prune: what may be deleted.
create index finished_purge on taskq.finished (purge_at);

-- The dead letters of a queue, newest first.
create index finished_failed on taskq.finished (queue, id)
  where status = 'failed';
