"""Every SQL statement of the client and the worker, in one list; the tests use it too.

Columns are named, so that a function may grow a column without breaking prepared statements of running
clients. Types, operators and functions are qualified: the statements also run on a caller's connection,
whatever its `search_path` finds first. Every parameter is cast and is a str, int, bool, float, datetime or
a list of those, so that any driver can pass it: JSON and intervals go as text, and JSON comes back as text.
"""

from __future__ import annotations

from taskq_sync.db.schema_name import DEFAULT, check_schema_name, quoted, rewrite

_ENQUEUE = """
select status, job_id from taskq.enqueue(
  p_queue => %(queue)s::pg_catalog.text, p_task => %(task)s::pg_catalog.text,
  p_payload => %(payload)s::pg_catalog.jsonb, p_priority => %(priority)s::pg_catalog.int4,
  p_scheduled_at => %(scheduled_at)s::pg_catalog.timestamptz, p_delay => %(delay)s::pg_catalog.interval,
  p_unique_key => %(unique_key)s::pg_catalog.text, p_concurrency_key => %(concurrency_key)s::pg_catalog.text,
  p_max_attempts => %(max_attempts)s::pg_catalog.int4, p_backoff => %(backoff)s::pg_catalog.interval,
  p_backoff_max => %(backoff_max)s::pg_catalog.interval, p_lease => %(lease)s::pg_catalog.interval,
  p_ttl => %(ttl)s::pg_catalog.interval, p_headers => %(headers)s::pg_catalog.jsonb,
  p_unique_mode => %(unique_mode)s::pg_catalog.text,
  p_unique_scope => %(unique_scope)s::pg_catalog.text,
  p_unique_for => %(unique_for)s::pg_catalog.interval, p_ordered => %(ordered)s::pg_catalog.bool,
  p_skip_wake => %(skip_wake)s::pg_catalog.bool)
"""

# The same without options, which most jobs do not have: writing them takes longer than leaving them out.
_ENQUEUE_PLAIN = """
select status, job_id from taskq.enqueue(
  p_queue => %(queue)s::pg_catalog.text, p_task => %(task)s::pg_catalog.text,
  p_payload => %(payload)s::pg_catalog.jsonb, p_skip_wake => %(skip_wake)s::pg_catalog.bool)
"""

_ENQUEUE_MANY = """
select ordinal, status, job_id from taskq.enqueue_many(
  p_queue => %(queue)s::pg_catalog.text, p_jobs => %(jobs)s::pg_catalog.jsonb,
  p_skip_wake => %(skip_wake)s::pg_catalog.bool)
"""

_CLAIM = """
select job_id, attempt_id, queue, task, payload::pg_catalog.text, headers::pg_catalog.text,
  progress::pg_catalog.text, priority, attempt_count, failure_count, max_attempts, expiry_streak,
  scheduled_at, created_at, lease, lease_expires_at, concurrency_key
from taskq.claim(
  p_queues => %(queues)s::pg_catalog.text[], p_worker_id => %(worker_id)s::pg_catalog.text,
  p_limit => %(limit)s::pg_catalog.int4, p_lease => %(lease)s::pg_catalog.interval)
"""

_POLL_HINT = """
select queue, state, next_due_at, next_due_at operator(pg_catalog.-) taskq.clock() as due_in
from taskq.poll_hint(p_queues => %(queues)s::pg_catalog.text[])
"""

_HEARTBEAT = """
select job_id, attempt_id, state, cancel_requested, lease_expires_at, progress_stored
from taskq.heartbeat(
  p_worker_id => %(worker_id)s::pg_catalog.text, p_job_ids => %(job_ids)s::pg_catalog.int8[],
  p_attempt_ids => %(attempt_ids)s::pg_catalog.int8[], p_lease => %(lease)s::pg_catalog.interval,
  p_progress => %(progress)s::pg_catalog.jsonb)
"""

_SETTLE = """
select job_id, attempt_id, result, status, scheduled_at, reason
from taskq.settle(
  p_worker_id => %(worker_id)s::pg_catalog.text, p_settlements => %(settlements)s::pg_catalog.jsonb)
"""

# The ids are those of the call, in its order, and none is rejected.
_COMPLETE_MANY = """
select result, status, scheduled_at
from taskq.complete_many(
  p_worker_id => %(worker_id)s::pg_catalog.text, p_job_ids => %(job_ids)s::pg_catalog.int8[],
  p_attempt_ids => %(attempt_ids)s::pg_catalog.int8[])
"""

_ATTEMPT_STATE = """
select state, status from taskq.attempt_state(
  p_job_id => %(job_id)s::pg_catalog.int8, p_attempt_id => %(attempt_id)s::pg_catalog.int8)
"""

_ANNOUNCE = """
select stop_requested, paused_queues from taskq.announce(
  p_worker_id => %(worker_id)s::pg_catalog.text, p_info => %(info)s::pg_catalog.jsonb)
"""

_SLEEP_UNTIL = """
select taskq.sleep_until(
  p_worker_id => %(worker_id)s::pg_catalog.text, p_queues => %(queues)s::pg_catalog.text[],
  p_wakes_at => taskq.clock() operator(pg_catalog.+) %(delay)s::pg_catalog.interval)::pg_catalog.text
"""

_AWAKE = "select taskq.awake(p_worker_id => %(worker_id)s::pg_catalog.text)::pg_catalog.text"

_JOB_COLUMNS = """id, queue, task, status, outcome, payload::pg_catalog.text, headers::pg_catalog.text,
priority,
  unique_key, concurrency_key, max_attempts, backoff, backoff_max, lease, ttl, created_at, scheduled_at,
  expires_at, hold, attempt_count, failure_count, expiry_streak, snooze_count, progress::pg_catalog.text,
  current_attempt_id, worker_id, claimed_at, lease_expires_at, cancel_requested_at, result::pg_catalog.text,
  error, reason, finished_at, purge_at, parent_job_id, root_job_id, enqueued_by,
  ordered"""

_GET_JOB = f"select {_JOB_COLUMNS} from taskq.get_job(p_job_id => %(job_id)s::pg_catalog.int8)"

_LIST_JOBS = f"""
select {_JOB_COLUMNS} from taskq.list_jobs(
  p_queue => %(queue)s::pg_catalog.text, p_task => %(task)s::pg_catalog.text,
  p_status => %(status)s::pg_catalog.text, p_limit => %(limit)s::pg_catalog.int4,
  p_before_id => %(before_id)s::pg_catalog.int8)
"""

_JOB_HISTORY = """
select attempt_id, worker_id, claimed_at, ended_at, verb, status, outcome, error, reason, scheduled_at
from taskq.job_history(p_job_id => %(job_id)s::pg_catalog.int8)
"""

_CANCEL_JOB = """
select job_id, result, status from taskq.cancel_job(
  p_job_id => %(job_id)s::pg_catalog.int8, p_actor => %(actor)s::pg_catalog.text,
  p_reason => %(reason)s::pg_catalog.text)
"""

_REDRIVE = _CANCEL_JOB.replace("cancel_job", "redrive")

_QUEUE_STATS = """
select queue, paused, ready, delayed, held, running, failed, oldest_ready_age, next_due_at
from taskq.queue_stats(p_queue => %(queue)s::pg_catalog.text)
"""

_PAUSE_QUEUE = """
select queue, result from taskq.pause_queue(
  p_queue => %(queue)s::pg_catalog.text, p_actor => %(actor)s::pg_catalog.text,
  p_reason => %(reason)s::pg_catalog.text)
"""

_RESUME_QUEUE = _PAUSE_QUEUE.replace("pause_queue", "resume_queue")

_PURGE_QUEUE = """
select job_id, result, status from taskq.purge_queue(
  p_queue => %(queue)s::pg_catalog.text, p_limit => %(limit)s::pg_catalog.int4,
  p_actor => %(actor)s::pg_catalog.text, p_reason => %(reason)s::pg_catalog.text)
"""

_WORKERS = """
select worker_id, host, pid, version, queues, slots, state, started_at, seen_at, running, stop_requested,
  info::pg_catalog.text
from taskq.workers(p_worker_id => %(worker_id)s::pg_catalog.text)
"""

_STOP_WORKER = """
select worker_id, result from taskq.stop_worker(
  p_worker_id => %(worker_id)s::pg_catalog.text, p_actor => %(actor)s::pg_catalog.text,
  p_reason => %(reason)s::pg_catalog.text)
"""

_HOLD_SINGLETON = "select taskq.hold_singleton(p_name => %(name)s::pg_catalog.text)"

_SET_QUEUE = """
select queue, version from taskq.set_queue(
  p_queue => %(queue)s::pg_catalog.text, p_max_attempts => %(max_attempts)s::pg_catalog.int4,
  p_backoff => %(backoff)s::pg_catalog.interval, p_backoff_max => %(backoff_max)s::pg_catalog.interval,
  p_lease => %(lease)s::pg_catalog.interval, p_ttl => %(ttl)s::pg_catalog.interval,
  p_retention_succeeded => %(retention_succeeded)s::pg_catalog.interval,
  p_retention_cancelled => %(retention_cancelled)s::pg_catalog.interval,
  p_retention_failed => %(retention_failed)s::pg_catalog.interval, p_actor => %(actor)s::pg_catalog.text,
  p_reason => %(reason)s::pg_catalog.text, p_max_depth => %(max_depth)s::pg_catalog.int4,
  p_aging => %(aging)s::pg_catalog.interval)
"""

_SET_CONCURRENCY_LIMIT = """
select key, max_running from taskq.set_concurrency_limit(
  p_key => %(key)s::pg_catalog.text, p_max_running => %(max_running)s::pg_catalog.int4,
  p_actor => %(actor)s::pg_catalog.text, p_reason => %(reason)s::pg_catalog.text)
"""

_TAKE_BACK = """
select job_id, attempt_id, result, status, scheduled_at
from taskq.take_back(p_limit => %(limit)s::pg_catalog.int4)
"""

_AGE = "select taskq.age(p_limit => %(limit)s::pg_catalog.int4)"

_EXPIRE_TTL = "select taskq.expire_ttl(p_limit => %(limit)s::pg_catalog.int4)"

_PRUNE = "select taskq.prune(p_limit => %(limit)s::pg_catalog.int4)"

_HOUSEKEEP = """
select taken_back, expired, pruned, raised from taskq.housekeep(p_limit => %(limit)s::pg_catalog.int4)
"""

_CHECK_INTEGRITY = "select job_id, problem from taskq.check_integrity()"

_SCHEMA_VERSION = "select version, min_client from taskq.schema_version()"


class Statements:
    """The statements for one schema, one attribute for each function of the contract, and `enqueue_plain`.

    `channel` is the name of the notification channel of the schema, `listen` the statement that listens to
    it.
    """

    def __init__(self, schema: str = DEFAULT) -> None:
        """Write the statements for *schema*; raises `ConfigError` for a name that may not be a schema."""

        def own(sql: str) -> str:
            return rewrite(sql.strip(), schema)

        self.schema = check_schema_name(schema)
        self.channel = f"{quoted(schema)}.wake"
        self.listen = 'listen "' + self.channel.replace('"', '""') + '"'
        self.enqueue = own(_ENQUEUE)
        self.enqueue_plain = own(_ENQUEUE_PLAIN)
        self.enqueue_many = own(_ENQUEUE_MANY)
        self.claim = own(_CLAIM)
        self.poll_hint = own(_POLL_HINT)
        self.heartbeat = own(_HEARTBEAT)
        self.settle = own(_SETTLE)
        self.complete_many = own(_COMPLETE_MANY)
        self.attempt_state = own(_ATTEMPT_STATE)
        self.announce = own(_ANNOUNCE)
        self.sleep_until = own(_SLEEP_UNTIL)
        self.awake = own(_AWAKE)
        self.get_job = own(_GET_JOB)
        self.list_jobs = own(_LIST_JOBS)
        self.job_history = own(_JOB_HISTORY)
        self.cancel_job = own(_CANCEL_JOB)
        self.redrive = own(_REDRIVE)
        self.queue_stats = own(_QUEUE_STATS)
        self.pause_queue = own(_PAUSE_QUEUE)
        self.resume_queue = own(_RESUME_QUEUE)
        self.purge_queue = own(_PURGE_QUEUE)
        self.workers = own(_WORKERS)
        self.stop_worker = own(_STOP_WORKER)
        self.hold_singleton = own(_HOLD_SINGLETON)
        self.set_queue = own(_SET_QUEUE)
        self.set_concurrency_limit = own(_SET_CONCURRENCY_LIMIT)
        self.take_back = own(_TAKE_BACK)
        self.age = own(_AGE)
        self.expire_ttl = own(_EXPIRE_TTL)
        self.prune = own(_PRUNE)
        self.housekeep = own(_HOUSEKEEP)
        self.check_integrity = own(_CHECK_INTEGRITY)
        self.schema_version = own(_SCHEMA_VERSION)
