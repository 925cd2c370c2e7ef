"""The functions of the schema about workers, as methods that take an `Executor`."""

from __future__ import annotations

from collections.abc import Sequence

from taskq_sync.db.connections import Executor
from taskq_sync.db.rows import read, read_one
from taskq_sync.db.statements import Statements
from taskq_sync.errors import JobNotFound, WorkerNotFound
from taskq_sync.model import StopResult, WorkerSeen


class Workers:
    """The calls about workers, for one schema. Holds no connection, so it may be shared by threads."""

    def __init__(self, statements: Statements) -> None:
        """Use the statements of one schema."""
        self._sql = statements

    def list(self, ex: Executor, worker_id: str | None = None) -> Sequence[WorkerSeen]:
        """Return all workers, the oldest first, or just one; one that is not there is no error.

        SQL: observer/workers.sql.
        """
        return read(WorkerSeen, ex.execute(self._sql.workers, {"worker_id": worker_id}))

    def stop(self, ex: Executor, worker_id: str, *, actor: str, reason: str | None = None) -> StopResult:
        """Ask a worker to stop softly; the audit keeps *actor* and *reason*. Raises `WorkerNotFound`.

        SQL: operator/stop_worker.sql.
        """
        params = {"worker_id": worker_id, "actor": actor, "reason": reason}
        try:
            return read_one(StopResult, ex.execute(self._sql.stop_worker, params))
        except JobNotFound as error:  # TQ001 is "not found", whatever was looked for
            raise WorkerNotFound(error.message, hint=error.hint, sqlstate=error.sqlstate) from error.__cause__

    def hold_singleton(self, ex: Executor, name: str) -> bool:
        """Take the lock of *name* for as long as the session lasts, which must be a direct one.

        False: another session has it. SQL: worker/hold_singleton.sql.
        """
        [(held,)] = ex.execute(self._sql.hold_singleton, {"name": name})
        return bool(held)
