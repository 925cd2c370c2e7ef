"""The functions of the schema about jobs and attempts, as methods that take an `Executor`.

A method is one statement: it passes parameters, reads rows into frozen values, and adds nothing. Errors are those
of the executor (see `db.session.Session.execute` for our own connections, `db.connections` for a caller's).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from taskq_sync import codec
from taskq_sync.clock import interval_text
from taskq_sync.db.connections import Executor, Row
from taskq_sync.db.rows import interval, read, read_one
from taskq_sync.db.statements import Statements
from taskq_sync.model import (
    Attempt,
    AttemptState,
    Beat,
    CancelResult,
    ClaimedJob,
    EnqueueResult,
    Housekept,
    Job,
    PollHint,
    Presence,
    Problem,
    RedriveResult,
    SchemaVersion,
    Settled,
    TakenBack,
    Verdict,
)
from taskq_sync.options import JobOptions

NO_PROGRESS: Mapping[int, str] = {}


class Jobs:
    """The calls about jobs, for one schema. Holds no connection, so it may be shared by threads."""

    def __init__(self, statements: Statements) -> None:
        """Use the statements of one schema."""
        self._sql = statements

    # Producer

    def enqueue(
        self,
        ex: Executor,
        queue: str,
        task: str,
        payload_json: str,
        options: JobOptions,
        skip_wake: bool = False,
    ) -> EnqueueResult:
        """Enqueue one job. *skip_wake* only on an autocommit connection. SQL: producer/enqueue.sql."""
        params = {"queue": queue, "task": task, "payload": payload_json, "skip_wake": skip_wake}
        if not options.given:
            [row] = ex.execute(self._sql.enqueue_plain, params)
        else:
            [row] = ex.execute(self._sql.enqueue, params | _parameters(options))
        return EnqueueResult(*row)

    def enqueue_many(
        self, ex: Executor, queue: str, jobs_json: str, skip_wake: bool = False
    ) -> Sequence[EnqueueResult]:
        """Enqueue the jobs of a JSON array (see `bulk.document`), all or none; results in input order.

        At most 10,000 jobs and 8 MiB. SQL: producer/enqueue_many.sql.
        """
        rows = ex.execute(self._sql.enqueue_many, {"queue": queue, "jobs": jobs_json, "skip_wake": skip_wake})
        rows.sort()
        return [EnqueueResult(status, job_id) for _, status, job_id in rows]

    # Worker

    def claim(
        self,
        ex: Executor,
        queues: Sequence[str],
        worker_id: str,
        limit: int,
        lease: timedelta | None = None,
    ) -> Sequence[ClaimedJob]:
        """Take up to *limit* due jobs under a lease; 0 to *limit* long, in claim order. SQL: worker/claim.sql."""
        params = {"queues": list(queues), "worker_id": worker_id, "limit": limit, "lease": interval(lease)}
        return read(ClaimedJob, ex.execute(self._sql.claim, params))

    def poll_hint(self, ex: Executor, queues: Sequence[str]) -> Sequence[PollHint]:
        """Return, for each queue, whether a claim would find something. SQL: worker/poll_hint.sql."""
        return read(PollHint, ex.execute(self._sql.poll_hint, {"queues": list(queues)}))

    def heartbeat(
        self,
        ex: Executor,
        worker_id: str,
        attempts: Sequence[tuple[int, int]],
        lease: timedelta | None = None,
        progress: Mapping[int, str] = NO_PROGRESS,
    ) -> Sequence[Beat]:
        """Renew the leases of *attempts*, pairs of job id and attempt id.

        *progress* maps job ids to checkpoints as JSON text, only those that changed. SQL: worker/heartbeat.sql.
        """
        document = ",".join(f'"{job_id}":{text}' for job_id, text in progress.items())
        params = {
            "worker_id": worker_id,
            "job_ids": [job_id for job_id, _ in attempts],
            "attempt_ids": [attempt_id for _, attempt_id in attempts],
            "lease": interval(lease),
            "progress": f"{{{document}}}" if document else None,
        }
        return read(Beat, ex.execute(self._sql.heartbeat, params))

    def settle(self, ex: Executor, worker_id: str, verdicts: Sequence[Verdict]) -> Sequence[Settled]:
        """End attempts; one answer for each verdict, in input order. A bad one does not stop the others.

        May be repeated after a lost answer: the second time says `already_settled`. SQL: worker/settle.sql, and
        worker/complete_many.sql where nothing but that is asked.
        """
        if all(verdict.is_bare for verdict in verdicts):
            return self._complete_many(ex, worker_id, verdicts)
        document = "[" + ",".join(verdict.document() for verdict in verdicts) + "]"
        params = {"worker_id": worker_id, "settlements": document}
        return read(Settled, ex.execute(self._sql.settle, params))

    def _complete_many(self, ex: Executor, worker_id: str, verdicts: Sequence[Verdict]) -> Sequence[Settled]:
        # As text: a list of numbers costs psycopg a microsecond for each of them.
        params = {
            "worker_id": worker_id,
            "job_ids": "{" + ",".join([str(verdict.job_id) for verdict in verdicts]) + "}",
            "attempt_ids": "{" + ",".join([str(verdict.attempt_id) for verdict in verdicts]) + "}",
        }
        rows = ex.execute(self._sql.complete_many, params)
        return [
            Settled(verdict.job_id, verdict.attempt_id, result, status, scheduled_at, None)
            for verdict, (result, status, scheduled_at) in zip(verdicts, rows, strict=True)
        ]

    def attempt_state(self, ex: Executor, job_id: int, attempt_id: int) -> AttemptState:
        """Say what became of an attempt; waits (bounded) for a transaction that is ending it.

        SQL: worker/attempt_state.sql.
        """
        params = {"job_id": job_id, "attempt_id": attempt_id}
        return read_one(AttemptState, ex.execute(self._sql.attempt_state, params))

    def announce(self, ex: Executor, worker_id: str, info: Mapping[str, object]) -> Presence:
        """Report the worker, as JSON-able *info*; the state `stopped` removes it. SQL: worker/announce.sql."""
        params = {"worker_id": worker_id, "info": json.dumps(info)}
        [(stop_requested, paused_queues)] = ex.execute(self._sql.announce, params)
        return Presence(stop_requested=stop_requested, paused_queues=tuple(paused_queues))

    def sleep_until(self, ex: Executor, worker_id: str, queues: Sequence[str], delay: float) -> None:
        """Register as asleep for *delay* seconds, so that producers notify. SQL: worker/sleep_until.sql."""
        params = {
            "worker_id": worker_id,
            "queues": list(queues),
            "delay": interval_text(timedelta(seconds=delay)),
        }
        ex.execute(self._sql.sleep_until, params)

    def awake(self, ex: Executor, worker_id: str) -> None:
        """Say that the worker polls by itself again. SQL: worker/awake.sql."""
        ex.execute(self._sql.awake, {"worker_id": worker_id})

    # Observer and operator

    def get(self, ex: Executor, job_id: int) -> Job:
        """Return the job, wherever it stands. Raises `JobNotFound`. SQL: observer/get_job.sql."""
        return read_one(Job, ex.execute(self._sql.get_job, {"job_id": job_id}))

    def list(
        self,
        ex: Executor,
        *,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        limit: int = 50,
        before_id: int | None = None,
    ) -> Sequence[Job]:
        """Return a page of jobs, newest id first; the next page begins *before_id* the last id of this one.

        SQL: observer/list_jobs.sql.
        """
        params = {"queue": queue, "task": task, "status": status, "limit": limit, "before_id": before_id}
        return read(Job, ex.execute(self._sql.list_jobs, params))

    def history(self, ex: Executor, job_id: int) -> Sequence[Attempt]:
        """Return the attempts of a job, oldest first, the running one included. SQL: observer/job_history.sql."""
        return read(Attempt, ex.execute(self._sql.job_history, {"job_id": job_id}))

    def cancel(self, ex: Executor, job_id: int, *, actor: str, reason: str | None = None) -> CancelResult:
        """Cancel a job: at once, or by asking its handler. Raises `JobNotFound`. SQL: operator/cancel_job.sql."""
        params = {"job_id": job_id, "actor": actor, "reason": reason}
        return read_one(CancelResult, ex.execute(self._sql.cancel_job, params))

    def redrive(self, ex: Executor, job_id: int, *, actor: str, reason: str | None = None) -> RedriveResult:
        """Put a failed or cancelled job back, due now, with a new budget. SQL: operator/redrive.sql.

        Raises `JobNotFound`, and `WrongState` for one that has succeeded.
        """
        params = {"job_id": job_id, "actor": actor, "reason": reason}
        return read_one(RedriveResult, ex.execute(self._sql.redrive, params))

    # Housekeeping

    def take_back(self, ex: Executor, limit: int = 1000) -> Sequence[TakenBack]:
        """End up to *limit* attempts whose lease has run out. SQL: housekeeping/take_back.sql."""
        return read(TakenBack, ex.execute(self._sql.take_back, {"limit": limit}))

    def age(self, ex: Executor, limit: int = 1000) -> int:
        """Raise up to *limit* jobs that have waited too long; returns how many. SQL: housekeeping/age.sql."""
        return _number(ex.execute(self._sql.age, {"limit": limit}))

    def expire_ttl(self, ex: Executor, limit: int = 1000) -> int:
        """End up to *limit* jobs that were not run in time; returns how many. SQL: housekeeping/expire_ttl.sql."""
        return _number(ex.execute(self._sql.expire_ttl, {"limit": limit}))

    def prune(self, ex: Executor, limit: int = 1000) -> int:
        """Delete up to *limit* jobs past their retention; returns how many. SQL: housekeeping/prune.sql."""
        return _number(ex.execute(self._sql.prune, {"limit": limit}))

    def housekeep(self, ex: Executor, limit: int = 1000) -> Housekept:
        """Do one bounded round of all housekeeping. SQL: housekeeping/housekeep.sql."""
        return read_one(Housekept, ex.execute(self._sql.housekeep, {"limit": limit}))

    def check_integrity(self, ex: Executor) -> Sequence[Problem]:
        """Return what contradicts the rules of the tables; empty when all is well. SQL: check_integrity.sql."""
        return read(Problem, ex.execute(self._sql.check_integrity, {}))

    def schema_version(self, ex: Executor) -> SchemaVersion:
        """Return the version of the installed schema. SQL: schema_version.sql."""
        return read_one(SchemaVersion, ex.execute(self._sql.schema_version, {}))


def _parameters(options: JobOptions) -> dict[str, object]:
    return {
        "priority": options.priority,
        "scheduled_at": options.scheduled_at,
        "delay": interval(options.delay),
        "unique_key": options.unique_key,
        "concurrency_key": options.concurrency_key,
        "max_attempts": options.max_attempts,
        "backoff": interval(options.backoff),
        "backoff_max": interval(options.backoff_max),
        "lease": interval(options.lease),
        "ttl": interval(options.ttl),
        "headers": None if options.headers is None else codec.to_json(options.headers, "headers"),
        "unique_mode": options.unique_mode,
        "unique_scope": options.unique_scope,
        "unique_for": interval(options.unique_for),
        "ordered": options.ordered,
    }


def _number(rows: Sequence[Row]) -> int:
    [(number,)] = rows
    return int(number)
