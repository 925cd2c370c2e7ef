"""The settler: sends verdicts to the database in batches, and keeps each until the database has answered for
it.

It may rely on two things. A verdict that was sent twice counts once (`already_settled`), so after a lost
answer the batch is sent again. Whether a verdict counts at all is decided by the fence, so it is never too
late to send one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define

from taskq_sync.backoff import pause
from taskq_sync.clock import Deadline, monotonic
from taskq_sync.db.jobs import Jobs
from taskq_sync.errors import TaskQError
from taskq_sync.model import Settled, Verdict
from taskq_sync.worker.attempts import Attempts, LiveAttempt
from taskq_sync.worker.events import (
    LEFT_TO_ITS_LEASE,
    AttemptsSettled,
    Events,
    LeaseWasLost,
    VerdictRefused,
    VerdictsUndelivered,
)
from taskq_sync.worker.link import CALL_TIMEOUT, Link
from taskq_sync.worker.threads import Empty, Event, Service, SimpleQueue

#: A batch is sent so many seconds after its first verdict, or as soon as so many have gathered.
FLUSH_AFTER = 0.005
FLUSH_COUNT = 100

#: The most that one call carries; more may have gathered while the call before was under way.
BATCH_LIMIT = 500

#: A verdict that holds up its batch is sent alone and may take so many seconds at first, doubled each time.
ALONE_TIMEOUT = 0.5

#: The pauses between these tries, in seconds.
PARKED_PAUSE = 1.0
PARKED_PAUSE_CAP = 30.0

#: Errors of a batch that one of its verdicts alone may have caused: its row is locked by somebody else, two
#: batches met in the wrong order, a value cannot be stored, the job is damaged.
_OF_ONE = frozenset({"57014", "55P03", "40001", "40P01", "TQ422", "TQ500"})
_UNSTORABLE_CLASSES = ("22", "54")


@define
class Pending:
    """A verdict that the database has not answered for yet; *tries* counts how often it was sent alone."""

    attempt: LiveAttempt
    verdict: Verdict
    tries: int = 0
    due_at: float = 0.0


class Settler:
    """One thread; slots and the claimer `put`, from any thread.

    The queue is the hand over. `_full` is set by whoever completes a batch, so that the thread is not woken
    for each verdict. What is kept is bounded by what the claimer claims (`prefetch.HELD_LIMIT`).
    """

    def __init__(
        self,
        *,
        name: str,
        worker_id: str,
        link: Link,
        jobs: Jobs,
        attempts: Attempts,
        amend: Callable[[LiveAttempt, Verdict, str], Verdict | None],
        freed: Callable[[], None],
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        """*amend* makes another verdict of a rejected one, or None; *freed* is called after each answer."""
        self._worker_id = worker_id
        self._link = link
        self._jobs = jobs
        self._attempts = attempts
        self._amend = amend
        self._freed = freed
        self._events = events
        self._queue: SimpleQueue[Pending | None] = SimpleQueue()
        self._full = Event()
        self._parked: list[Pending] = []
        self._ending = False
        self._give_up = Deadline.never()
        self._hurry = Event()
        self.undelivered = 0
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread."""
        self._service.start()

    def put(self, attempt: LiveAttempt, verdict: Verdict) -> None:
        """Have *verdict* settled. Never blocks."""
        self._queue.put(Pending(attempt, verdict))
        if self._queue.qsize() >= FLUSH_COUNT and not self._full.is_set():
            self._full.set()

    def stop(self, deadline: Deadline) -> None:
        """Deliver what was put before, but try no longer than until *deadline*; then end.

        Does not block. May be called again with another deadline.
        """
        self._give_up = deadline
        self._queue.put(None)
        self._full.set()
        self._hurry.set()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        return self._service.join(timeout)

    def _run(self) -> None:
        try:
            while not self._finished():
                batch = self._gather()
                if batch:
                    self._deliver(batch)
                self._retry_parked()
        finally:
            self._link.close()
        self.undelivered = len(self._parked)
        if self.undelivered:
            self._events.emit(VerdictsUndelivered(count=self.undelivered))

    def _finished(self) -> bool:
        if not self._ending or not self._queue.empty():
            return False
        return not self._parked or self._give_up.expired

    def _gather(self) -> list[Pending]:
        """Wait for a verdict, or until a parked one is due, and return what a call may carry."""
        try:
            first = self._queue.get(timeout=self._until_parked())
        except Empty:
            return []
        if not self._ending:
            self._full.wait(FLUSH_AFTER)
        self._full.clear()
        batch: list[Pending] = []
        item = first
        while True:
            if item is None:
                self._ending = True
            else:
                batch.append(item)
            if len(batch) == BATCH_LIMIT:
                return batch
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch

    def _deliver(self, batch: list[Pending]) -> None:
        """Send *batch* until it is answered; what one of its verdicts holds up is sent one by one."""
        while True:
            try:
                answers = self._send(batch, CALL_TIMEOUT)
            except TaskQError as error:
                if self._link.standing and _may_be_of_one(error):
                    return self._deliver_one_by_one(batch)
                if not self._wait_out(error):
                    return self._parked.extend(batch)
            else:
                return self._answered(batch, answers)

    def _deliver_one_by_one(self, batch: Sequence[Pending]) -> None:
        for pending in batch:
            self._deliver_alone(pending)

    def _deliver_alone(self, pending: Pending) -> None:
        try:
            answers = self._send([pending], min(ALONE_TIMEOUT * 2**pending.tries, CALL_TIMEOUT))
        except TaskQError as error:
            if self._link.standing and _is_unstorable(error):
                return self._replace(pending, "refused", str(error))
            if not self._link.standing:
                self._wait_out(error)
            pending.tries += 1
            pending.due_at = monotonic() + pause(pending.tries, base=PARKED_PAUSE, cap=PARKED_PAUSE_CAP)
            self._parked.append(pending)
        else:
            self._answered([pending], answers)

    def _retry_parked(self) -> None:
        now = monotonic()
        due = [each for each in self._parked if each.due_at <= now]
        if due:
            self._parked = [each for each in self._parked if each.due_at > now]
            self._deliver_one_by_one(due)

    def _until_parked(self) -> float | None:
        if not self._parked:
            return None
        return max(0.0, min(each.due_at for each in self._parked) - monotonic())

    def _wait_out(self, error: TaskQError) -> bool:
        """Pause after a failed call; return False when it is time to give up."""
        seconds = self._link.failed(error)
        self._hurry.wait(min(seconds, self._give_up.remaining))
        self._hurry.clear()
        return not self._give_up.expired

    def _send(self, batch: Sequence[Pending], timeout: float) -> Sequence[Settled]:
        verdicts = [each.verdict for each in batch]
        began = monotonic()
        answers = self._link.call(
            lambda session: self._jobs.settle(session, self._worker_id, verdicts), timeout=timeout
        )
        if self._events.wanted(AttemptsSettled):
            self._events.emit(
                AttemptsSettled(verdicts=verdicts, answers=answers, seconds=monotonic() - began)
            )
        return answers

    def _answered(self, batch: Sequence[Pending], answers: Sequence[Settled]) -> None:
        for pending, answer in zip(batch, answers, strict=True):
            if answer.result not in ("ok", "retry_scheduled", "dead", "already_settled"):
                self._not_settled(pending, answer)
        self._attempts.remove(
            pending.attempt.fence
            for pending, answer in zip(batch, answers, strict=True)
            if answer.result != "rejected"
        )
        self._freed()

    def _not_settled(self, pending: Pending, answer: Settled) -> None:
        attempt = pending.attempt
        if answer.result == "lost":
            # A job handed back leaves no trace, so a repeated hand-back is `lost` too: no news.
            if not attempt.lost and attempt.started_at:
                attempt.lost = True
                self._events.emit(LeaseWasLost(job=attempt.job))
        elif answer.result == "rejected":
            self._replace(pending, answer.result, answer.reason)
        elif (
            not attempt.commit_unknown
        ):  # then the conflict is the answer: its own transaction has settled it
            self._refused(pending, answer.result, answer.reason, "the earlier verdict stands")

    def _replace(self, pending: Pending, result: str, reason: str | None) -> None:
        """Have another verdict settled for one that the database will never take."""
        amended = self._amend(pending.attempt, pending.verdict, reason or result)
        if amended is not None:
            self._refused(pending, result, reason, f"{amended.verb} instead")
            self._queue.put(Pending(pending.attempt, amended))
        else:
            self._refused(pending, result, reason, LEFT_TO_ITS_LEASE)
            self._attempts.remove([pending.attempt.fence])

    def _refused(self, pending: Pending, result: str, reason: str | None, consequence: str) -> None:
        self._events.emit(
            VerdictRefused(
                job=pending.attempt.job,
                verb=pending.verdict.verb,
                result=result,
                reason=reason,
                consequence=consequence,
            )
        )


def _may_be_of_one(error: TaskQError) -> bool:
    return error.sqlstate in _OF_ONE or _is_unstorable(error)


def _is_unstorable(error: TaskQError) -> bool:
    state = error.sqlstate or ""
    return state == "TQ422" or state[:2] in _UNSTORABLE_CLASSES
