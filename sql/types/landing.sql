-- Where one attempt lands, as settle_attempts decided; finish and requeue carry it out. Internal.
create type taskq.landing as (
  ordinal         bigint,       -- of the element, from 1
  job_id          bigint,
  attempt_id      bigint,
  verb            text,         -- asked for; taking back is a sixth verb
  worker_id       text,
  status          text,         -- 'queued' = requeue, else finish
  outcome         text,
  answer          text,         -- the settle result
  result          jsonb,
  error           text,
  reason          text,
  scheduled_at    timestamptz,  -- null when it ended
  progress        jsonb,        -- null = keep the last checkpoint
  failure_count   int,
  expiry_streak   int,
  queue           text,
  concurrency_key text
);
