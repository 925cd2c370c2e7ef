-- Who holds a unique key. A row exists exactly as long as its job is live.
--
-- Lock order of every function: job rows by id first, then these rows by (queue, key).
-- keep takes no lock on an existing row: a web request that met `existed` and stays open
-- must not block the settle of that job.
create table taskq.unique_keys (
  queue  text not null,
  key    text not null,
  job_id bigint not null,
  primary key (queue, key)
)
with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- settle frees a key from the job, without a look at jobs.
create unique index unique_keys_job on taskq.unique_keys (job_id);
