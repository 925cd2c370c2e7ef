"""What became of the jobs of one run: an observer of its events that counts.

What counts is what the database has answered, not what was asked of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from taskq_sync.clock import monotonic
from taskq_sync.model import Settled, Verdict
from taskq_sync.worker import events as of
from taskq_sync.worker.events import Events
from taskq_sync.worker.threads import Lock
from taskq_sync.worker.verdicts import is_not_started

#: What is counted, in the order in which it is shown.
COUNTS = (
    "started",  # handlers that were begun
    "succeeded",
    "failed",  # jobs that ended so
    "retried",  # attempts that failed, and whose job waits for another
    "snoozed",
    "cancelled",
    "released",  # attempts handed back without cost: an unknown task, a stop that did not wait, ...
    "lost",  # attempts whose lease was lost: what the handler returned does not count
    "died",  # suspects that have killed their child process; the job is left to its lease
    "undelivered",  # verdicts that the database did not take; the job is left to its lease
)

#: Where an attempt can land at the end of its job; the count has the same name.
_ENDS = frozenset({"succeeded", "failed", "cancelled"})

#: What is counted of an attempt that its verdict has put back into the queue.
_REQUEUED = {"fail": "retried", "snooze": "snoozed", "release": "released"}


class Summary:
    """The counts of one run; complete when the worker has ended.

    `_lock` guards all fields: slots, the settler and the main thread report. It is held for a few assignments.
    """

    def __init__(self, worker_id: str) -> None:
        """Count nothing yet; the time begins now."""
        self._lock = Lock()
        self._worker_id = worker_id
        self._began_at = monotonic()
        self._ended_at = self._began_at
        self._counts: Counter[str] = Counter()
        self._failing: set[int] = set()
        self._dead: set[int] = set()
        self._paused: tuple[str, ...] = ()
        self._reason: str | None = None
        self._exit_code: int | None = None

    def observe(self, events: Events) -> None:
        """Count what the worker whose events these are reports from now on."""
        events.subscribe(of.StateChanged, self._state_changed)
        events.subscribe(of.JobStarted, self._started)
        events.subscribe(of.JobEnded, self._job_ended)
        events.subscribe(of.SuspectDied, self._died)
        events.subscribe(of.AttemptsSettled, self._settled)
        events.subscribe(of.QueuesPaused, self._queues_paused)
        events.subscribe(of.VerdictRefused, self._refused)
        events.subscribe(of.VerdictsUndelivered, self._undelivered)
        events.subscribe(of.WorkerEnded, self._ended)

    @property
    def failing(self) -> int:
        """How many jobs have failed in this run and did not recover in it.

        The last attempt that this run made of them failed: they have ended as failed, wait for a retry, or were
        left to their lease by a child process that died.
        """
        return len(self._failing)

    @property
    def paused(self) -> tuple[str, ...]:
        """Which of the served queues are paused, as far as the worker knows."""
        return self._paused

    def facts(self) -> dict[str, object]:
        """Return everything as one flat object; what only the end shows is missing before it."""
        with self._lock:
            return {
                "worker_id": self._worker_id,
                "reason": self._reason,
                "exit_code": self._exit_code,
                "seconds": round(self._ended_at - self._began_at, 3),
                **{name: self._counts[name] for name in COUNTS},
                "failing": len(self._failing),
                "paused": list(self._paused),
            }

    def _state_changed(self, event: of.StateChanged) -> None:
        with self._lock:
            if self._reason is None and event.after in ("stopping", "stopped"):
                self._reason = event.reason

    def _started(self, event: of.JobStarted) -> None:
        with self._lock:
            self._counts["started"] += 1

    def _job_ended(self, event: of.JobEnded) -> None:
        """Without a verdict, the transaction of the handler has completed the job, unless its child has died."""
        if event.verdict is not None:
            return
        with self._lock:
            if event.job.attempt_id in self._dead:
                self._dead.remove(event.job.attempt_id)
            else:
                self._count("succeeded", event.job.job_id)

    def _died(self, event: of.SuspectDied) -> None:
        with self._lock:
            self._dead.add(event.job.attempt_id)
            self._count("died", event.job.job_id)

    def _settled(self, event: of.AttemptsSettled) -> None:
        with self._lock:
            self._count_answers(event.verdicts, event.answers)

    def _count_answers(self, verdicts: Sequence[Verdict], answers: Sequence[Settled]) -> None:
        for verdict, answer in zip(verdicts, answers, strict=True):
            # A rejected one is followed by another verdict, or by VerdictRefused.
            if answer.result == "rejected" or is_not_started(verdict):
                continue
            if answer.result == "lost":
                self._counts["lost"] += 1
            elif answer.status in _ENDS:
                self._count(answer.status, answer.job_id)
            else:
                self._count(_REQUEUED.get(verdict.verb, "released"), answer.job_id)

    def _queues_paused(self, event: of.QueuesPaused) -> None:
        with self._lock:
            self._paused = event.queues

    def _refused(self, event: of.VerdictRefused) -> None:
        if event.consequence == of.LEFT_TO_ITS_LEASE:
            with self._lock:
                self._counts["undelivered"] += 1

    def _undelivered(self, event: of.VerdictsUndelivered) -> None:
        with self._lock:
            self._counts["undelivered"] += event.count

    def _ended(self, event: of.WorkerEnded) -> None:
        with self._lock:
            self._ended_at = monotonic()
            self._exit_code = event.exit_code

    def _count(self, what: str, job_id: int) -> None:
        self._counts[what] += 1
        if what in ("failed", "retried", "died"):
            self._failing.add(job_id)
        elif what != "released":  # handed back, it is neither better nor worse than before
            self._failing.discard(job_id)
