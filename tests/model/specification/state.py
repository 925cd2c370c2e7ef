"""The nouns: a job, an attempt, a unique key, a queue, and all that is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from attrs import define, field

Row = dict[str, Any]

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
#: What a job is that says nothing else, nor does its queue.
REQUEST = {"payload": {}, "headers": None, "priority": 0, "concurrency_key": None, "unique_scope": None}
POLICY = {"max_attempts": 5, "backoff": 30 * SECOND, "backoff_max": 60 * MINUTE, "lease": MINUTE, "ttl": None}
RETENTION = {"succeeded": 2 * DAY, "cancelled": 2 * DAY, "failed": 30 * DAY}
LEAST_RETENTION = 10 * MINUTE
#: Where an outcome puts a job; without one it is queued again.
STATUS = {None: "queued", "success": "succeeded"}
STATUS |= dict.fromkeys(["retry_exhausted", "non_retryable", "poison"], "failed")
STATUS |= dict.fromkeys(["cancelled", "cancelled_after_expiry", "expired_ttl"], "cancelled")


class Refused(Exception):
    """The call is refused with this SQLSTATE, and has changed nothing."""


class Difference(AssertionError):
    """The database is not as it should be."""


class Job(SimpleNamespace):
    """A job, as `job_view` shows it, and some more: *keyed*, it has its unique key, or had it when it was started."""

    #: Of an attempt that runs; *claimed_lease* is what a beat renews by.
    IDLE = dict.fromkeys(["current_attempt_id", "worker_id", "claimed_at", "claimed_lease"])
    IDLE |= dict.fromkeys(["lease_expires_at", "cancel_requested_at"])
    #: Of a job that has ended; *reason* is also that of a request to cancel it.
    UNENDED = dict.fromkeys(["outcome", "result", "error", "reason", "finished_at", "purge_at"])
    #: A hold is 'key' (its key is full), 'order' (behind an older ordered job of its key), or 'expired'.
    NEW = IDLE | UNENDED | dict.fromkeys(["hold", "progress", "parent_job_id", "root_job_id"])
    NEW |= dict.fromkeys(["attempt_count", "failure_count", "expiry_streak", "snooze_count"], 0)

    lives = property(lambda self: self.status in ("queued", "running"))
    #: Of the jobs of a queue claims take the smallest first.
    place = property(lambda self: (-self.priority, self.scheduled_at, self.id))

    def set(self, **values: Any) -> None:
        """Set these fields."""
        vars(self).update(values)


class Attempt(SimpleNamespace):
    """One claim of a job, as `attempt_view` shows it."""

    NEW = dict.fromkeys(["ended_at", "verb", "outcome", "error", "reason", "scheduled_at"])


@define
class Key:
    """A unique key, with the job that holds it or has held it."""

    job_id: int
    waiting: bool  # it counts only until the job is started
    expires_at: datetime | None  # it counts until then, whatever happens
    free: bool = False  # the job was started


@define
class Queue:
    """The row of a queue: its pause, and the policies that are not the default."""

    version: int = 0
    paused_at: datetime | None = None
    policy: Row = field(factory=dict)


@define
class State:
    """All that is committed; *session* is who calls. Methods that begin with `_` are no functions of the contract."""

    now: datetime
    user: str
    session: int = 0
    seen: Mapping[int, Row] = field(factory=dict)
    seen_audit: list[Row] = field(factory=list)
    jobs: dict[int, Job] = field(factory=dict)
    attempts: dict[int, Attempt] = field(factory=dict)  # by their fence
    keys: dict[tuple[str, str | None], Key] = field(factory=dict)  # by queue and key
    queues: dict[str, Queue] = field(factory=dict)
    limits: dict[str, int] = field(factory=dict)  # of concurrency keys, and of patterns that end in `*`
    signals: set[str] = field(factory=set)  # concurrency keys whose held jobs the next claim looks at again
    presence: dict[str, Row] = field(factory=dict)
    sleepers: dict[str, Row] = field(factory=dict)
    singletons: dict[str, int] = field(factory=dict)
    audit: list[Row] = field(factory=list)
    strict_queues: bool = False
    last_take_back: datetime | None = None
    last_job_id: int = 0
    last_fence: int = 0

    def _job(self, job_id: int) -> Job:
        if job_id not in self.jobs:
            raise Refused("TQ001")
        return self.jobs[job_id]

    def _jobs(self, **wanted: Any) -> list[Job]:
        """Those with these values, in the order in which claims would take them."""
        jobs = (job for job in self.jobs.values() if all(vars(job)[name] == wanted[name] for name in wanted))
        return sorted(jobs, key=lambda job: job.place)

    def _waiting(self, queue: str, **wanted: Any) -> list[Job]:
        """Those that a claim of this queue meets, due or not."""
        return self._jobs(status="queued", queue=queue, hold=None, **wanted)

    def _next_in_order(self, key: str) -> list[Job]:
        """The oldest ordered job that is held; none if there is none."""
        return sorted(self._jobs(hold="order", concurrency_key=key), key=lambda job: job.id)[:1]

    def _was_left(self, job: Job) -> bool:
        """Whether the call has left the job alone: of equals the database may choose."""
        return self.seen.get(job.id, {}).get("status") == job.status

    def _too_late(self, job: Job) -> bool:
        return job.status == "queued" and job.expires_at is not None and job.expires_at <= self.now

    def _queue(self, queue: str) -> Queue:
        """A queue needs no row."""
        return self.queues.get(queue, Queue())

    def _paused(self, queue: str) -> bool:
        return self._queue(queue).paused_at is not None

    def _limit(self, key: str) -> int:
        """Its own limit, else that of the longest pattern that it begins with, else 1."""
        patterns = [each for each in self.limits if each.endswith("*") and key.startswith(each[:-1])]
        return self.limits.get(key, self.limits.get(max(patterns, key=len, default=key), 1))

    def _room(self, key: str | None) -> int:
        """How many more jobs of a key may start."""
        running = self._jobs(status="running", concurrency_key=key)
        return 1000 if key is None else self._limit(key) - len(running)

    def _signal(self, keys: Iterable[str | None]) -> None:
        self.signals |= {key for key in keys if key is not None}

    def _key_of(self, job: Job) -> Key | None:
        key = self.keys.get((job.queue, job.unique_key))
        return key if key is not None and key.job_id == job.id else None

    def _holder(self, queue: str, unique_key: str | None) -> int | None:
        """The live job with this key, of the scope `waiting` until it is started; and any until the key expires."""
        key = self.keys.get((queue, unique_key))
        counts = key is not None and ((self.jobs[key.job_id].lives and not key.free) or self._lasts(key))
        return key.job_id if counts else None

    def _lasts(self, key: Key) -> bool:
        return key.expires_at is not None and key.expires_at > self.now

    def _end_waiting(self, jobs: list[Job], outcome: str, reason: str | None) -> None:
        for job in jobs:
            self._end(job, outcome, reason)
        self._signal(job.concurrency_key for job in jobs)

    def _end(self, job: Job, outcome: str, reason: str | None, **what: Any) -> None:
        """Its unique key is gone, unless that has a time: then retention keeps the job for as long."""
        job.set(**Job.IDLE, status=STATUS[outcome], outcome=outcome, reason=reason)
        job.set(hold=None, finished_at=self.now)
        retention = self._queue(job.queue).policy.get(f"retention_{job.status}", RETENTION[job.status])
        job.set(purge_at=self.now + max(retention, LEAST_RETENTION), **what)
        key = self._key_of(job)
        if key is not None and self._lasts(key):
            job.purge_at = max(job.purge_at, key.expires_at)
        elif key is not None:
            del self.keys[job.queue, job.unique_key]
