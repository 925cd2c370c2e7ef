-- One element of a settle document, as read. Internal.
create type taskq.settlement as (
  job_id      bigint,
  attempt_id  bigint,
  verb        text,
  result      jsonb,
  error       text,
  retryable   boolean,
  retry_after interval,
  delay       interval,
  reason      text,
  cause       text,
  progress    jsonb,
  fault       text        -- why the element could not be read; never a property of the document
);
