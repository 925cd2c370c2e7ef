"""What a worker reports of itself. The parts emit events; the log, and whoever subscribes, observes them.

    events.subscribe(JobEnded, lambda event: durations.observe(event.seconds))

An event is made only when somebody observes its kind, so what nobody wants to know costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import field, frozen

from taskq_sync.errors import ConfigError, HookError
from taskq_sync.model import ClaimedJob, Settled, Verdict

logger = logging.getLogger("taskq_sync.worker")

EventType = TypeVar("EventType")


#: The consequence of a refused verdict for which there is no other.
LEFT_TO_ITS_LEASE = "the job is left to its lease"

#: The reason of a worker that has found its singleton taken.
ALREADY_RUNNING = "already running"


class WorkerEvent:
    """The base of all events."""


@frozen(kw_only=True)
class WorkerStarted(WorkerEvent):
    """All parts run."""

    worker_id: str
    queues: tuple[str, ...]
    slots: int


@frozen(kw_only=True)
class StartRefused(WorkerEvent):
    """A hook of `on_worker_start` failed, so the worker does not serve."""

    error: HookError


@frozen(kw_only=True)
class WorkerEnded(WorkerEvent):
    """Nothing runs any more, or will in a moment: the process ends with this code.

    With `fail_on_error`, *failing* jobs have failed and did not recover.
    """

    worker_id: str
    exit_code: int
    failing: int = 0


@frozen(kw_only=True)
class WorkerSpent(WorkerEvent):
    """The worker begins to stop so that a fresh process may take its place, because of *reason*."""

    reason: str


@frozen(kw_only=True)
class StateChanged(WorkerEvent):
    """The worker went from one state of its life to another."""

    before: str
    after: str
    reason: str


@frozen(kw_only=True)
class JobsClaimed(WorkerEvent):
    """A claim brought *count* jobs and took *seconds*."""

    count: int
    seconds: float


@frozen(kw_only=True)
class JobsHandedBack(WorkerEvent):
    """*count* claimed jobs are released without having been started, because of *reason*."""

    count: int
    reason: str


@frozen(kw_only=True)
class JobStarted(WorkerEvent):
    """A slot is about to run the job."""

    job: ClaimedJob


@frozen(kw_only=True)
class JobEnded(WorkerEvent):
    """The job's attempt is over for the slot.

    *verdict* is what will be asked of the database, None where the handler's own transaction has completed
    the job, and after `SuspectDied`.
    """

    job: ClaimedJob
    verdict: Verdict | None
    seconds: float


@frozen(kw_only=True)
class JobFailed(WorkerEvent):
    """The handler failed: it raised *error*, or (None) said so by its outcome. Comes before `JobEnded`.

    Without *retryable* the job is to end by it, whatever is left of its budget.
    """

    job: ClaimedJob
    text: str
    error: BaseException | None = field(default=None, repr=False)
    retryable: bool = True


@frozen(kw_only=True)
class HookFailed(WorkerEvent):
    """A hook of the program raised *error*, which changes nothing for the *job*: its handler has ended.

    *job* None: it is a hook of the process. Hooks before a handler fail the attempt instead: `JobFailed`.
    """

    hook: str
    error: BaseException
    job: ClaimedJob | None


@frozen(kw_only=True)
class TaskUnknown(WorkerEvent):
    """This program has no task of the job's name: the job is released for *seconds*, for a worker that has."""

    job: ClaimedJob
    seconds: float


@frozen(kw_only=True)
class PayloadMisfit(WorkerEvent):
    """The payload does not fit the task, for *reason*: the job is put back, for a newer worker.

    Once the job is older than *grace*, in seconds, it fails instead.
    """

    job: ClaimedJob
    reason: str
    grace: float


@frozen(kw_only=True)
class SuspectDied(WorkerEvent):
    """A job that may have killed a worker before has killed the child process it was put into.

    *death* says how. The job is left to its lease: the third time in a row ends it.
    """

    job: ClaimedJob
    death: str


@frozen(kw_only=True)
class ChildUnavailable(WorkerEvent):
    """The job belongs into a child process, and there is none, because of *reason*."""

    job: ClaimedJob
    reason: str
    consequence: str


@frozen(kw_only=True)
class AttemptsSettled(WorkerEvent):
    """The database has answered for these verdicts, in its words; the answers are in their order."""

    verdicts: Sequence[Verdict]
    answers: Sequence[Settled]
    seconds: float


@frozen(kw_only=True)
class VerdictRefused(WorkerEvent):
    """The database did not take a verdict: `rejected` or `settle_conflict`, and what is done about it."""

    job: ClaimedJob
    verb: str
    result: str
    reason: str | None
    consequence: str


@frozen(kw_only=True)
class CheckpointRefused(WorkerEvent):
    """The database did not store a checkpoint because of its size; the one before it still stands."""

    job: ClaimedJob


@frozen(kw_only=True)
class LeaseDoubtful(WorkerEvent):
    """No beat has arrived in time: another worker may take the job. The handler is told."""

    job: ClaimedJob


@frozen(kw_only=True)
class LeaseWasLost(WorkerEvent):
    """The database says that the attempt is no longer ours.

    Its handler is told; its verdict will not count.
    """

    job: ClaimedJob


@frozen(kw_only=True)
class BeatProcessEnded(WorkerEvent):
    """The child process that sends the beats is gone, or did not start, for *reason*.

    Another one is started; until then the worker beats itself.
    """

    reason: str


@frozen(kw_only=True)
class BeatsWithheld(WorkerEvent):
    """The main thread of the worker has given no sign for *seconds*: no attempt is beaten until it does again."""

    seconds: float


@frozen(kw_only=True)
class CancelDelivered(WorkerEvent):
    """Somebody asked to cancel the job; its handler is told now."""

    job: ClaimedJob


@frozen(kw_only=True)
class SingletonTaken(WorkerEvent):
    """Another worker runs under this name, so this one ends."""

    singleton: str


@frozen(kw_only=True)
class SingletonLost(WorkerEvent):
    """The connection that held the lock of this name is broken: another worker may begin, so this one stops."""

    singleton: str
    error: str


@frozen(kw_only=True)
class QueuesPaused(WorkerEvent):
    """The served queues that are paused have changed to these, and *resumed* are no longer."""

    queues: tuple[str, ...]
    resumed: tuple[str, ...] = ()


@frozen(kw_only=True)
class QueuesLeftPaused(WorkerEvent):
    """A burst ends, and these of its queues are paused: what waits in them was not looked at."""

    queues: tuple[str, ...]


@frozen(kw_only=True)
class Housekept(WorkerEvent):
    """A pass of housekeeping moved *count* rows; *job_ids* are those that were taken back."""

    chore: str
    count: int
    job_ids: tuple[int, ...] = ()


@frozen(kw_only=True)
class ChoreFailing(WorkerEvent):
    """A chore of housekeeping has failed twice in a row; with *error* None it works again."""

    chore: str
    error: str | None


@frozen(kw_only=True)
class ListeningChanged(WorkerEvent):
    """Notifications arrive again, or (*error*) no longer; without them the worker polls more often."""

    listening: bool
    error: str | None = None


@frozen(kw_only=True)
class StillWaiting(WorkerEvent):
    """The worker is stopping and waits for these handlers, for *seconds* more; None = for ever."""

    jobs: tuple[ClaimedJob, ...]
    seconds: float | None


@frozen(kw_only=True)
class StopHurried(WorkerEvent):
    """Somebody asked a second time for the stop, for *reason*: the worker waits no longer."""

    reason: str


@frozen(kw_only=True)
class ChildKilled(WorkerEvent):
    """A stopping worker waits no longer, so it has killed the child process of this job, and releases the job."""

    job: ClaimedJob


@frozen(kw_only=True)
class HandlersStuck(WorkerEvent):
    """These handlers would not end; *stacks* says where each of them is. The process ends without them."""

    jobs: tuple[ClaimedJob, ...]
    stacks: tuple[str, ...]


@frozen(kw_only=True)
class HandlerStuck(WorkerEvent):
    """A handler has not ended in time after its time limit; its thread is at *stack*, and was given up.

    With it, *stuck* threads are; up to *allowed* of them are replaced, past that the worker stops.
    """

    job: ClaimedJob
    stack: str = field(repr=False)
    stuck: int
    allowed: int


@frozen(kw_only=True)
class VerdictsUndelivered(WorkerEvent):
    """The worker ends with *count* verdicts that no database took; those jobs are left to their leases."""

    count: int


@frozen(kw_only=True)
class PartDied(WorkerEvent):
    """A thread of the worker ended by an exception, which is a defect. The worker stops."""

    part: str
    error: BaseException


class Events:
    """Who observes what.

    Subscribe before the worker starts; afterwards the table is only read, without a lock. An observer runs
    in the thread that emits, so it must be quick; one that raises is reported in the log and harms nobody.
    The log of a worker is the first observer of all.
    """

    def __init__(self) -> None:
        self._observers: dict[type[WorkerEvent], list[Callable[[Any], None]]] = {}

    def subscribe(self, kind: type[EventType], observer: Callable[[EventType], None]) -> None:
        """Call *observer* with every event of this *kind*, after those who subscribed before.

        With `WorkerEvent` it is called with all events. Raises `ConfigError` for a class that is no event.
        """
        if not issubclass(kind, WorkerEvent):
            raise ConfigError(f"{kind.__qualname__} is no event of a worker")
        for each in WorkerEvent.__subclasses__() if kind is WorkerEvent else (kind,):
            self._observers.setdefault(each, []).append(observer)

    def wanted(self, kind: type[WorkerEvent]) -> bool:
        """Return whether anybody observes *kind*."""
        return kind in self._observers

    def emit(self, event: WorkerEvent) -> None:
        """Hand *event* to its observers."""
        for observer in self._observers.get(type(event), ()):
            try:
                observer(event)
            except BaseException:  # the border to user code: an observer must not end a part, nor a slot
                logger.exception("an observer of %s failed", type(event).__name__)
