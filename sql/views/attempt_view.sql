-- Every attempt of every job: the running one, the ended ones, and the last on a finished row.
--
-- Read by job_history. Columns are only ever added, and at the end.
create or replace view taskq.attempt_view as
select a.job_id, a.attempt_id, a.worker_id, a.claimed_at, a.ended_at, a.verb, a.status,
  a.outcome, a.error, a.reason, a.scheduled_at
from taskq.attempts a
union all
select f.id, f.attempt_id, f.worker_id, f.claimed_at, f.finished_at, f.verb, f.status,
  f.outcome, f.error, f.reason, null
from taskq.finished f
where f.attempt_id is not null
union all
select x.id, x.attempt_id, x.worker_id, x.claimed_at, null, null, 'running',
  null, null, x.cancel_reason, null
from taskq.running x;

comment on view taskq.attempt_view is
  'Every attempt of every job: the running one, the ended ones, and the last on a finished row.';
