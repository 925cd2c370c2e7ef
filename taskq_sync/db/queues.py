"""The functions of the schema about queues and concurrency keys, as methods that take an `Executor`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from taskq_sync.db.connections import Executor
from taskq_sync.db.rows import interval, read, read_one
from taskq_sync.db.statements import Statements
from taskq_sync.model import CancelResult, ConcurrencyLimit, PauseResult, QueueStats, QueueVersion


class Queues:
    """The calls about queues, for one schema. Holds no connection, so it may be shared by threads.

    Each change takes an *actor* and a *reason*, which the audit keeps.
    """

    def __init__(self, statements: Statements) -> None:
        """Use the statements of one schema."""
        self._sql = statements

    def stats(self, ex: Executor, queue: str | None = None) -> Sequence[QueueStats]:
        """Return one queue, or all that hold jobs or have settings. SQL: observer/queue_stats.sql."""
        return read(QueueStats, ex.execute(self._sql.queue_stats, {"queue": queue}))

    def pause(self, ex: Executor, queue: str, *, actor: str, reason: str | None = None) -> PauseResult:
        """Let no job of the queue be claimed; running ones go on. SQL: operator/pause_queue.sql."""
        params = {"queue": queue, "actor": actor, "reason": reason}
        return read_one(PauseResult, ex.execute(self._sql.pause_queue, params))

    def resume(self, ex: Executor, queue: str, *, actor: str, reason: str | None = None) -> PauseResult:
        """Undo a pause. SQL: operator/resume_queue.sql."""
        params = {"queue": queue, "actor": actor, "reason": reason}
        return read_one(PauseResult, ex.execute(self._sql.resume_queue, params))

    def purge(
        self, ex: Executor, queue: str, *, actor: str, reason: str | None = None, limit: int = 1000
    ) -> Sequence[CancelResult]:
        """Cancel up to *limit* (10,000 at most) jobs that wait in the queue; call again until it is empty.

        SQL: operator/purge_queue.sql.
        """
        params = {"queue": queue, "limit": limit, "actor": actor, "reason": reason}
        return read(CancelResult, ex.execute(self._sql.purge_queue, params))

    def set_queue(
        self,
        ex: Executor,
        queue: str,
        *,
        actor: str,
        reason: str | None = None,
        max_attempts: int | None = None,
        backoff: timedelta | None = None,
        backoff_max: timedelta | None = None,
        lease: timedelta | None = None,
        ttl: timedelta | None = None,
        retention_succeeded: timedelta | None = None,
        retention_cancelled: timedelta | None = None,
        retention_failed: timedelta | None = None,
        max_depth: int | None = None,
        aging: timedelta | None = None,
    ) -> QueueVersion:
        """Change the defaults for jobs enqueued from now on; None leaves a setting as it is.

        While *max_depth* jobs wait, due or not, an enqueue that would add one raises `QueueFull`.
        SQL: operator/set_queue.sql.
        """
        params = {
            "queue": queue,
            "max_attempts": max_attempts,
            "backoff": interval(backoff),
            "backoff_max": interval(backoff_max),
            "lease": interval(lease),
            "ttl": interval(ttl),
            "retention_succeeded": interval(retention_succeeded),
            "retention_cancelled": interval(retention_cancelled),
            "retention_failed": interval(retention_failed),
            "max_depth": max_depth,
            "aging": interval(aging),
            "actor": actor,
            "reason": reason,
        }
        return read_one(QueueVersion, ex.execute(self._sql.set_queue, params))

    def set_concurrency_limit(
        self, ex: Executor, key: str, max_running: int, *, actor: str, reason: str | None = None
    ) -> ConcurrencyLimit:
        """Let at most *max_running* jobs with this key run at a time. SQL: operator/set_concurrency_limit.sql."""
        params = {"key": key, "max_running": max_running, "actor": actor, "reason": reason}
        return read_one(ConcurrencyLimit, ex.execute(self._sql.set_concurrency_limit, params))
