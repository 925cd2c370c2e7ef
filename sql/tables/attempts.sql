-- Every ended attempt that does not stand on a finished row, with its error: errors do not
-- travel with the job. Written once by requeue; redrive moves a finished row's attempt here.
create table taskq.attempts (
  job_id       bigint not null,
  attempt_id   bigint not null,
  worker_id    text not null,
  claimed_at   timestamptz not null,
  ended_at     timestamptz not null,
  verb         text not null,      -- the settle verb asked for, or 'take_back'
  status       text not null,      -- where the job landed
  outcome      text,               -- null = it went back to the queue
  scheduled_at timestamptz,        -- when it was to run again
  error        text,
  reason       text,
  primary key (job_id, attempt_id)
)
with (
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_insert_scale_factor = 0.1
);
