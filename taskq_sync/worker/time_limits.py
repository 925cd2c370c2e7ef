"""The time limits of handlers in threads: interrupts those that allow it, and finds those that will not end.

A handler is interrupted when its time limit has passed, its job is cancelled, its lease is lost, or nobody waits for
handlers any more; tried again until it is in a place where it may be. One that has not ended a grace after its
time limit is stuck. Its slot gets another thread, up to `max_stuck`; its attempt stays running, and is beaten. Past
that number the worker stops: its supervisor starts a new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define

from taskq_sync.clock import Deadline, monotonic
from taskq_sync.interrupts import Guard
from taskq_sync.registry import TaskSpec
from taskq_sync.worker.attempts import LiveAttempt
from taskq_sync.worker.events import Events, HandlerStuck
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.reasons import reason_to_end
from taskq_sync.worker.slots import Slots
from taskq_sync.worker.threads import Event, Lock, Service

PART = "limits"

#: Seconds between two looks whether a handler has to be interrupted.
LOOK_EVERY = 0.1


@define(eq=False)
class Watched:
    """A handler that has a time limit, or may be interrupted."""

    attempt: LiveAttempt
    limit: Deadline
    guard: Guard | None
    stuck: bool = False


class TimeLimits:
    """One thread, which sleeps while no handler is watched. Slots watch and leave.

    `_lock` guards the table, `Watched.stuck` and the planned instant of the next look.
    """

    def __init__(
        self,
        *,
        name: str,
        grace: float,
        max_stuck: int,
        lifecycle: Lifecycle,
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        """*grace* in seconds. `slots` is to be set before the start."""
        self.slots: Slots
        self._grace = grace
        self._max_stuck = max_stuck
        self._lifecycle = lifecycle
        self._events = events
        self._lock = Lock()
        self._watched: dict[int, Watched] = {}
        self._next_look = math.inf
        self._wanted = Event()
        self._ending = False
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread."""
        self._service.start()

    def stop(self) -> None:
        """End. Does not block; may be called twice, and before `start`."""
        self._ending = True
        self._wanted.set()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        return self._service.join(timeout)

    def watch(self, attempt: LiveAttempt, spec: TaskSpec, limit: Deadline) -> Guard | None:
        """Watch the handler that is about to run in the calling thread; return its guard if it has one."""
        if limit.at == math.inf and not spec.interrupt:
            return None
        guard = Guard() if spec.interrupt else None
        due = self._due(limit, guard, stuck=False)
        if due == math.inf:
            return guard
        with self._lock:
            self._watched[attempt.fence] = Watched(attempt, limit, guard)
            sooner = due < self._next_look
            if sooner:
                self._next_look = due
        if sooner:
            self._wanted.set()
        return guard

    def leave(self, attempt: LiveAttempt) -> bool:
        """The handler has ended. Return whether its slot has another thread by now, so that this one must end."""
        if attempt.fence not in self._watched:  # only its own thread puts it there and takes it out
            return False
        with self._lock:
            return self._watched.pop(attempt.fence).stuck

    def _run(self) -> None:
        while not self._ending:
            for watched in self._plan_look():
                self._look(watched)
            seconds = self._next_look - monotonic()
            if seconds > 0:
                self._wanted.wait(None if seconds == math.inf else seconds)
            self._wanted.clear()

    def _plan_look(self) -> list[Watched]:
        """Return the handlers to look at, and plan the look after this one."""
        with self._lock:
            all_watched = list(self._watched.values())
            dues = (self._due(each.limit, each.guard, stuck=each.stuck) for each in all_watched)
            self._next_look = min(dues, default=math.inf)
        return all_watched

    def _due(self, limit: Deadline, guard: Guard | None, *, stuck: bool) -> float:
        """Return the instant of the next look at a handler, `math.inf` for none."""
        now = monotonic()
        ends_at = math.inf if stuck else limit.at + self._grace
        if guard is None or guard.sent:
            return ends_at
        return min(ends_at, now + LOOK_EVERY, limit.at if limit.at > now else math.inf)

    def _look(self, watched: Watched) -> None:
        if watched.guard is not None and not watched.guard.sent:
            reason = reason_to_end(watched.attempt, watched.limit, self._lifecycle)
            if reason is not None:
                watched.guard.interrupt(reason)
        if not watched.stuck and monotonic() >= watched.limit.at + self._grace:
            self._stuck(watched)

    def _stuck(self, watched: Watched) -> None:
        with self._lock:
            if watched.attempt.fence not in self._watched:
                return  # it has just ended
            watched.stuck = True
        stack = self.slots.give_up_on(watched.attempt)
        stuck = self.slots.stuck
        allowed = stuck <= self._max_stuck
        self._events.emit(
            HandlerStuck(job=watched.attempt.job, stack=stack, stuck=stuck, allowed=self._max_stuck)
        )
        if not allowed:
            self._lifecycle.request_stop(f"{stuck} handlers are stuck", unwell=True)
        elif not self._lifecycle.stopping:
            self.slots.add_thread()
