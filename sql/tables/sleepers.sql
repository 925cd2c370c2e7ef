-- Workers that sleep, the queues they serve, and when they wake by themselves: an enqueue
-- may skip NOTIFY when nobody sleeps beyond its job. Unlogged: after a crash all poll anew.
create unlogged table taskq.sleepers (
  worker_id text not null primary key,
  queues    text[] not null,
  wakes_at  timestamptz not null
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
