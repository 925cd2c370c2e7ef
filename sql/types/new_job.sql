-- A request as enqueue and enqueue_many read it, before defaults. Internal: one array of it
-- serves single and many. Its fields are the properties an object of enqueue_many may have.
create type taskq.new_job as (
  task            text,
  payload         jsonb,
  priority        int,
  scheduled_at    timestamptz,
  delay           interval,
  unique_key      text,
  concurrency_key text,
  max_attempts    int,
  backoff         interval,
  backoff_max     interval,
  lease           interval,
  ttl             interval,
  headers         jsonb,
  unique_mode     text,
  unique_scope    text,
  unique_for      interval,
  ordered         boolean
);
