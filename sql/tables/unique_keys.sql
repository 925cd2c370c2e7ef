-- Who holds a unique key. A row is there while its job is live, and until expires_at where
-- that is later; and where its scope is `waiting` it is free once the job has been started.
--
-- Who has locked a live job's row never waits for one of these: what is locked is skipped. So an
-- enqueue may take keys first, in order of key, and then lock the waiting jobs that hold others,
-- in order of id. It locks no row of a live holder: a web request that met `existed` and stays
-- open must not block the settle of that job. A free row may be locked by a transaction that takes
-- it; whoever ends the job skips it then, and it becomes that transaction's or stays free.
create table taskq.unique_keys (
  queue      text not null,
  key        text not null,
  job_id     bigint not null,
  waiting    boolean not null default false,  -- scope: counts only until the job is started
  free       boolean not null default false,  -- the job was started; the next that asks takes it
  expires_at timestamptz,                     -- counts until then at least, whatever the job does
  primary key (queue, key)
)
with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

-- settle frees a key from the job, without a look at jobs.
create unique index unique_keys_job on taskq.unique_keys (job_id);
