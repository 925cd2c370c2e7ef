"""The context of a running handler, as `taskq_sync.context` promises it.

Everything a handler asks is answered from this process; only a flushed checkpoint and a transaction wait for
the database. Where a child process beats, a handler whose lease may have run out waits up to `NEWS_PATIENCE` for its
news.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from taskq_sync import codec
from taskq_sync.clock import Deadline, monotonic
from taskq_sync.context import JobContext, JobTransaction
from taskq_sync.errors import JobCancelled, JobTimeout, LeaseLost
from taskq_sync.model import ClaimedJob, JsonValue
from taskq_sync.worker.attempts import Attempts, LiveAttempt
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.threads import Event
from taskq_sync.worker.transaction import Transactions
from taskq_sync.worker.verdicts import progress_text

#: While a handler waits for its checkpoint to be stored it looks so often, in seconds, whether its lease
#: still holds.
FLUSH_LOOK = 1.0


class WorkerContext(JobContext):
    """One attempt, seen from its handler. Holds no lock; the handler's threads may share it."""

    __slots__ = ("_attempt", "_attempts", "_deadline", "_lifecycle", "_transactions")

    def __init__(
        self,
        attempt: LiveAttempt,
        *,
        deadline: Deadline,
        attempts: Attempts,
        lifecycle: Lifecycle,
        transactions: Transactions,
    ) -> None:
        self._attempt = attempt
        self._deadline = deadline
        self._attempts = attempts
        self._lifecycle = lifecycle
        self._transactions = transactions

    @property
    def job(self) -> ClaimedJob:
        """The job as it was claimed."""
        return self._attempt.job

    @property
    def attempt(self) -> int:
        """The number of this attempt."""
        return self._attempt.job.attempt_count

    @property
    def fence(self) -> int:
        """A number that is greater for every later attempt of the job."""
        return self._attempt.fence

    @property
    def deadline(self) -> Deadline:
        """When the time limit of the task runs out."""
        return self._deadline

    @property
    def progress(self) -> JsonValue:
        """The latest checkpoint."""
        text = self._attempt.checkpoint
        return self._attempt.job.progress if text is None else codec.from_json(text)

    def checkpoint(self, value: object, *, flush: bool = False) -> None:
        """Keep *value* for the next attempt."""
        self._check_lease()
        self._attempt.checkpoint = progress_text(value)
        if flush:
            self._flush()

    @property
    def should_stop(self) -> bool:
        """Whether the handler should come to an end."""
        return self.cancelled or self._lifecycle.handlers_must_end or self._deadline.expired

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled the job, or its lease is in doubt."""
        return self._attempt.cancel_requested or self._attempts.in_doubt(self._attempt)

    def raise_if_cancelled(self) -> None:
        """Raise what `should_stop` means."""
        if self._attempt.cancel_requested:
            raise JobCancelled(f"somebody cancelled job {self.job.job_id}")
        self._check_lease()
        if self._lifecycle.handlers_must_end:
            raise JobCancelled("the worker is stopping and no longer waits")
        if self._deadline.expired:
            raise JobTimeout(f"task {self.job.task} ran longer than {self._deadline.seconds:g} s")

    def transaction(self) -> AbstractContextManager[JobTransaction]:
        """Open a transaction in which the handler's rows and the completion of the job commit together."""
        self._check_lease()
        return self._transactions.begin(self._attempt)

    def _check_lease(self) -> None:
        if self._attempts.in_doubt(self._attempt):
            raise LeaseLost(f"the lease of job {self.job.job_id} has run out or was lost")

    def _flush(self) -> None:
        """Wait until the database has the newest checkpoint."""
        attempt = self._attempt
        attempt.flush = stored = Event()
        while attempt.unsent_checkpoint is not None:
            self._check_lease()
            attempt.beat_at = 0.0
            self._attempts.beat_wanted.set()
            stored.wait(min(FLUSH_LOOK, max(0.0, attempt.deadline - monotonic())))
            stored.clear()
        attempt.flush = None
        self._check_lease()
