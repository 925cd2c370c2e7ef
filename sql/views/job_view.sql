-- A job as one row, wherever it stands: all places are read in one statement.
--
-- Read by get_job and list_jobs. Columns are only ever added, and at the end.
create or replace view taskq.job_view as
select
  j.id,
  j.queue,
  j.task,
  case
    when r.id is not null and r.hold is not null and r.hold not in ('key', 'order', 'expired') then 'blocked'
    when r.id is not null then 'queued'
    when x.id is not null then 'running'
    else f.status
  end as status,
  f.outcome,
  j.payload,
  j.headers,
  coalesce(r.priority, x.priority, f.priority) as priority,
  j.unique_key,
  j.concurrency_key,
  j.max_attempts,
  j.backoff,
  j.backoff_max,
  j.lease,
  j.ttl,
  j.created_at,
  coalesce(r.scheduled_at, x.scheduled_at, f.scheduled_at) as scheduled_at,
  coalesce(r.expires_at, x.expires_at, f.expires_at) as expires_at,
  r.hold,
  coalesce(r.attempt_count, x.attempt_count, f.attempt_count) as attempt_count,
  coalesce(r.failure_count, x.failure_count, f.failure_count) as failure_count,
  coalesce(r.expiry_streak, x.expiry_streak, f.expiry_streak) as expiry_streak,
  coalesce(r.snooze_count, x.snooze_count, f.snooze_count) as snooze_count,
  coalesce(r.progress, x.progress, f.progress) as progress,
  x.attempt_id as current_attempt_id,
  coalesce(x.worker_id, f.worker_id) as worker_id,
  coalesce(x.claimed_at, f.claimed_at) as claimed_at,
  x.lease_expires_at,
  x.cancel_requested_at,
  f.result,
  f.error,
  coalesce(f.reason, x.cancel_reason) as reason,
  f.finished_at,
  f.purge_at,
  j.parent_job_id,
  j.root_job_id,
  j.enqueued_by,
  coalesce(r.is_ordered, x.is_ordered, f.is_ordered) as ordered
from taskq.jobs j
left join taskq.ready r on r.id = j.id
left join taskq.running x on x.id = j.id
left join taskq.finished f on f.id = j.id;

comment on view taskq.job_view is
  'A job as one row, wherever it stands: all places are read in one statement.';
