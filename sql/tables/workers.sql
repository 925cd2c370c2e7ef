-- Presence, for people and for stop requests. Nothing decides by it whether a job is alive:
-- only the lease does.
create table taskq.workers (
  worker_id      text not null primary key,   -- differs per process start
  info           jsonb not null,
  started_at     timestamptz not null,
  seen_at        timestamptz not null,
  stop_requested boolean not null default false
);
