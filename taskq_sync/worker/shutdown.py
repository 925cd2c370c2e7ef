"""How a worker ends: what is stopped in which order, and how long each waits for the one before.

Nothing is claimed any more and what waits for a slot goes back. Handlers are waited for, while beats go on
and cancels arrive. Then they are told to end. Who still does not end is released, by the last statement
before the process ends: from that moment another worker may run the job.
"""

from __future__ import annotations

from collections.abc import Callable

from taskq_sync.clock import Deadline, monotonic
from taskq_sync.worker.attempts import LiveAttempt, Stage
from taskq_sync.worker.config import WorkerConfig
from taskq_sync.worker.events import Events, HandlersStuck, StillWaiting, StopHurried
from taskq_sync.worker.lifecycle import Lifecycle, StopRequest
from taskq_sync.worker.link import CALL_TIMEOUT
from taskq_sync.worker.parts import Parts
from taskq_sync.worker.verdicts import given_up

EXIT_DRAINED = 0
EXIT_FAILED = 1
EXIT_STUCK = 3

#: How long handlers have to end after they were told that nobody waits for them any more, in seconds.
LAST_CALL = 0.5

#: How long the last verdicts may take when there is no time left, in seconds.
LAST_STATEMENT = 2.0

#: A stopping worker says so often, in seconds, for whom it waits.
REPORT_EVERY = 60.0

#: How long a thread may take to end, in seconds: one call to the database and the grace of its cancellation.
PART_TIMEOUT = CALL_TIMEOUT + 2.0


class Shutdown:
    """One stop of one worker, in its main thread.

    `_hurried` is set by a second insistent request: then nothing waits longer than it takes to leave in good order.
    `_insisted` is set by the first, which may come when the worker is stopping for another reason.
    """

    def __init__(
        self, parts: Parts, config: WorkerConfig, lifecycle: Lifecycle, events: Events, request: StopRequest
    ) -> None:
        self._parts = parts
        self._lifecycle = lifecycle
        self._events = events
        self._request = request
        self._hurried = request.failed
        self._insisted = request.insistent
        self._failed = request.failed
        self._unwell = request.unwell
        seconds = config.soft_stop_timeout
        self._patience = Deadline.never() if seconds is None else Deadline.after(seconds)

    def run(self) -> int:
        """Stop everything, and return the exit code. Threads that would not end are left behind."""
        parts = self._parts
        self._lifecycle.stop(self._request.reason)
        if parts.listener is not None:
            parts.listener.stop()
        parts.slots.stop()
        self._wait_for_handlers()
        self._end_handlers()
        self._end(parts.claimer.join)
        if parts.listener is not None:
            self._end(parts.listener.join)
        parts.housekeeper.stop()
        self._end(parts.housekeeper.join)
        stuck = self._release_stuck()
        parts.limits.stop()
        self._end(parts.limits.join)
        self._end_settler()
        parts.heartbeat.stop()
        if not stuck:
            self._end(parts.heartbeat.join)
            self._end(parts.slots.join)
        parts.children.close()
        parts.transactions.close()
        code = self._exit_code(stuck)
        self._lifecycle.stopped("drained" if code == EXIT_DRAINED else f"exit code {code}")
        return code

    def _wait_for_handlers(self) -> None:
        slots = self._parts.slots
        while not (slots.drained or self._hurried or self._patience.expired):
            running = tuple(attempt.job for attempt in slots.busy())
            if running:
                self._events.emit(StillWaiting(jobs=running, seconds=self._patience.timeout))
            self._wait(min(self._patience.at, monotonic() + REPORT_EVERY), lambda: slots.drained)

    def _end_handlers(self) -> None:
        """Tell the handlers that nobody waits for them any more, and see who listens."""
        slots = self._parts.slots
        self._lifecycle.end_handlers()
        if not slots.ended:
            self._wait(monotonic() + LAST_CALL, lambda: slots.ended)

    def _release_stuck(self) -> list[LiveAttempt]:
        """Hand over the verdicts that release what will not end, and return these attempts."""
        running = self._parts.slots.running()
        for attempt, _ in running:
            attempt.given_up = True  # from here on its slot hands nothing over
            attempt.stage = Stage.ENDED  # and a beat that finds it lost is no news
            self._parts.settler.put(attempt, given_up(attempt))
        if running:
            jobs = tuple(attempt.job for attempt, _ in running)
            self._events.emit(HandlersStuck(jobs=jobs, stacks=tuple(stack() for _, stack in running)))
        return [attempt for attempt, _ in running]

    def _end_settler(self) -> None:
        """Let the verdicts be delivered; while the database is away, until it may have given the jobs away."""
        settler, now = self._parts.settler, monotonic()
        leases = max((attempt.deadline for attempt in self._parts.attempts.held()), default=now)
        until = now if self._hurried else min(leases, self._patience.at)
        settler.stop(Deadline(max(until, now + LAST_STATEMENT), 0.0))
        if not self._wait(until, lambda: settler.ended):
            settler.stop(Deadline.after(LAST_STATEMENT))
        self._end(settler.join)

    def _end(self, join: Callable[[float], bool]) -> None:
        join(LAST_STATEMENT if self._hurried else PART_TIMEOUT)

    def _wait(self, until: float, done: Callable[[], bool]) -> bool:
        """Wait until *done*; False at the instant *until*, or as soon as somebody does not want to wait."""
        while not done():
            request = self._lifecycle.wait(Deadline(until, 0.0), done)
            if request is None:
                return done()
            self._failed = self._failed or request.failed
            self._unwell = self._unwell or request.unwell
            repeated = request.insistent and self._insisted
            if repeated and not self._hurried:
                self._events.emit(StopHurried(reason=request.reason))
            if request.failed or repeated:
                self._hurried = True
                return done()
            self._insisted = self._insisted or request.insistent
        return True

    def _exit_code(self, stuck: list[LiveAttempt]) -> int:
        if self._failed or self._parts.settler.undelivered or not self._parts.settler.ended:
            return EXIT_FAILED
        return EXIT_STUCK if stuck or self._unwell or self._parts.children.forced else EXIT_DRAINED
