"""`ctx.transaction()`: the handler's rows and the completion of its job, in one commit.

The fence is checked by the completion, which is the last statement before COMMIT: it locks the row of the
job, so nobody else waits for the handler's own work, and what it finds still holds when the commit arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from taskq_sync.clock import Deadline
from taskq_sync.context import JobTransaction
from taskq_sync.db.faults import is_transient
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.pool import SessionPool
from taskq_sync.db.session import Session
from taskq_sync.errors import (
    ConfigError,
    DatabaseUnavailable,
    LeaseLost,
    OutcomeUnknown,
    PayloadError,
    WrongState,
)
from taskq_sync.interrupts import interruptible
from taskq_sync.model import Settled, Verdict
from taskq_sync.retry import repeat_until
from taskq_sync.worker.attempts import LiveAttempt, Stage
from taskq_sync.worker.link import CALL_TIMEOUT
from taskq_sync.worker.verdicts import result_text

#: Seconds that a handler waits for one of the connections to become free.
CONNECTION_TIMEOUT = 30.0

_READ_COMMITTED = "read committed"


class Transactions:
    """The connections for the transactions of all handlers of a worker, and what happens around a commit."""

    def __init__(self, pool: SessionPool, jobs: Jobs, worker_id: str) -> None:
        self._pool = pool
        self._jobs = jobs
        self._worker_id = worker_id

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    @contextmanager
    def begin(self, attempt: LiveAttempt) -> Iterator[JobTransaction]:
        """Lend a transaction that completes *attempt* when the block ends; see `JobContext.transaction`."""
        if attempt.transaction_used:
            raise WrongState(f"attempt {attempt.fence} of job {attempt.job.job_id} has had its transaction")
        attempt.transaction_used = True
        try:
            with self._pool.session(Deadline.after(CONNECTION_TIMEOUT)) as session, ExitStack() as bounds:
                bounds.enter_context(
                    session.within(Deadline.never())
                )  # how long it works is the handler's affair
                with session.transaction():
                    transaction = WorkerTransaction(session)
                    with interruptible():
                        yield transaction
                    # These bounds last until the COMMIT is answered.
                    bounds.enter_context(session.within(Deadline.after(CALL_TIMEOUT)))
                    self._complete(session, attempt, transaction.result_json)
        except OutcomeUnknown as error:
            if attempt.stage is not Stage.SETTLING:
                raise  # it is the handler's own, of something else that it did in the block
            self._find_out(attempt, error)
        except BaseException:
            if attempt.stage is Stage.SETTLING:
                attempt.stage = Stage.RUNNING
            raise
        attempt.stage = Stage.ENDED

    def _complete(self, session: Session, attempt: LiveAttempt, result_json: str | None) -> None:
        """Complete the job in the open transaction. Raises, so that it rolls back, unless the fence holds."""
        self._check_isolation(session)
        # From here on the row is locked: a beat finds it `busy`, and `lost` as soon as the commit has
        # arrived.
        attempt.stage = Stage.SETTLING
        job = attempt.job
        verdict = Verdict.complete(job.job_id, attempt.fence, result_json=result_json)
        [answer] = self._jobs.settle(session, self._worker_id, [verdict])
        if answer.result == "rejected":
            raise PayloadError(f"job {job.job_id} was not completed: {answer.reason}")
        if answer.result != "ok":
            attempt.lost = True
            raise LeaseLost(f"job {job.job_id} was not completed: attempt {attempt.fence} is {_say(answer)}")

    def _check_isolation(self, session: Session) -> None:
        [(level,)] = session.execute("select current_setting('transaction_isolation')", {})
        if level != _READ_COMMITTED:
            raise ConfigError(
                f"the transaction runs at {level}",
                hint="leave it at read committed: at another level the fence is looked up in an old snapshot",
            )

    def _find_out(self, attempt: LiveAttempt, error: OutcomeUnknown) -> None:
        """The link broke during COMMIT. Return if the commit arrived, otherwise raise what became of it."""
        state = self._ask(attempt)
        if state == "settled":
            return
        attempt.stage = Stage.RUNNING
        if state == "lost":
            attempt.lost = True
            raise LeaseLost(
                f"the commit of job {attempt.job.job_id} did not arrive, and its lease was lost"
            ) from error
        attempt.commit_unknown = True
        raise error

    def _ask(self, attempt: LiveAttempt) -> str:
        """Return the state of the attempt, `unknown` if the database does not say before the lease is in doubt."""
        deadline = Deadline(attempt.deadline, attempt.terms.lease)
        try:
            return repeat_until(deadline, lambda: self._ask_once(attempt), when=is_transient)
        except DatabaseUnavailable:
            return "unknown"

    def _ask_once(self, attempt: LiveAttempt) -> str:
        with self._pool.session(Deadline.after(CALL_TIMEOUT)) as session:
            answer = self._jobs.attempt_state(session, attempt.job.job_id, attempt.fence)
        if answer.state == "busy":
            raise DatabaseUnavailable(f"the row of job {attempt.job.job_id} is locked")
        return answer.state


class WorkerTransaction(JobTransaction):
    """The open transaction of one handler."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.result_json: str | None = None

    @property
    def connection(self) -> Any:
        """The psycopg connection."""
        return self._session.connection

    def execute(
        self, sql: str, params: Mapping[str, object] | Sequence[object] | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        cursor = self._session.connection.execute(sql.encode(), params)
        return cursor.fetchall() if cursor.description is not None else []

    def complete(self, result: object = None) -> None:
        """Say with which result the job is completed when the block ends."""
        self.result_json = result_text(result)


def _say(answer: Settled) -> str:
    return "lost" if answer.result == "lost" else f"{answer.result} ({answer.status})"
