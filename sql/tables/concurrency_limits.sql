-- Concurrency keys whose limit is not the default of one running job.
create table taskq.concurrency_limits (
  key         text not null primary key,
  max_running int not null check (max_running >= 0),  -- 0 = closed
  updated_at  timestamptz not null
);
