"""Where a worker stands between its start and its end: five named states that every part asks for.

::

    starting --> running <--> degraded
        |           |            |
        +-----------+------------+--> stopping --> stopped

`degraded` means that some part cannot reach the database: nothing is claimed, everything else goes on. The
way to the end is one way. Anybody may ask for a stop, a signal handler too; the main thread hears it and
acts.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from attrs import frozen

from taskq_sync.clock import Deadline
from taskq_sync.worker.events import Events, StateChanged
from taskq_sync.worker.threads import Empty, Lock, SimpleQueue

#: How long the main thread waits in one go, in seconds. A signal does not always end its wait: the system may
#: have given it to another thread, or just before the wait began. Python then runs the handler at the next look.
SIGNAL_LOOK = 1.0


class State(Enum):
    """The value is what `announce` reports and what the log says."""

    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    STOPPING = "stopping"
    STOPPED = "stopped"


@frozen(kw_only=True)
class StopRequest:
    """Somebody wants the worker to end.

    *insistent*: a repeated one means "do not wait for the handlers". *failed*: a part of the worker died, so
    there is no waiting at all and the exit code is not 0. *unwell*: no part died, but the worker cannot go on, and
    the exit code is not 0 either.
    """

    reason: str
    insistent: bool = False
    failed: bool = False
    unwell: bool = False


class Lifecycle:
    """The state of one worker, and the wish to stop it.

    `_lock` guards the state and the set of ailing parts. It is held for a few assignments only, never while
    watchers or observers are called. Requests go through a SimpleQueue, whose `put` may interrupt itself: a
    signal handler runs in the main thread, between any two steps of it, and must not need a lock.

    `stopping`: whether the way to the end has begun. Asked for every job, so it is a field.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._lock = Lock()
        self._state = State.STARTING
        self.stopping = False
        self._ailing: dict[str, str] = {}
        self._watchers: list[Callable[[], None]] = []
        self._requests: SimpleQueue[StopRequest | None] = SimpleQueue()
        self._handlers_must_end = False
        self._signs: list[Callable[[], None]] = []

    @property
    def state(self) -> State:
        """The state at this moment."""
        return self._state

    @property
    def may_claim(self) -> bool:
        """Whether new work may be taken."""
        return self._state is State.RUNNING

    def ails(self, part: str) -> bool:
        """Whether *part* cannot reach the database."""
        return part in self._ailing

    @property
    def handlers_must_end(self) -> bool:
        """Whether the worker no longer waits for its handlers; `ctx.should_stop` shows it to them."""
        return self._handlers_must_end

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call *watcher* after each change of state, in the thread that made it. It must not block."""
        self._watchers.append(watcher)

    def sign(self, sign: Callable[[], None]) -> None:
        """Call *sign* in the main thread, at least every `SIGNAL_LOOK` seconds while that waits. It must not block."""
        self._signs.append(sign)

    def ready(self) -> None:
        """Everything is started: work may begin."""
        with self._lock:
            before = self._state
            if before is not State.STARTING:
                return
            self._state = State.DEGRADED if self._ailing else State.RUNNING
            after = self._state
        self._tell(before, after, "started")

    def ail(self, part: str, reason: str) -> None:
        """*part* cannot reach the database. Repeating it changes nothing."""
        with self._lock:
            known = part in self._ailing
            self._ailing[part] = reason
            before = self._state
            if before is State.RUNNING:
                self._state = State.DEGRADED
            after = self._state
        if not known:
            self._tell(before, after, f"{part}: {reason}")

    def recover(self, part: str) -> None:
        """*part* reaches the database. Cheap when it always did."""
        if part not in self._ailing:  # a stale look costs one round: only *part* itself changes its entry
            return
        with self._lock:
            self._ailing.pop(part, None)
            before = self._state
            if before is State.DEGRADED and not self._ailing:
                self._state = State.RUNNING
            after = self._state
        self._tell(before, after, "the database answers again")

    def request_stop(
        self, reason: str, *, insistent: bool = False, failed: bool = False, unwell: bool = False
    ) -> None:
        """Ask the main thread to stop the worker.

        Safe in a signal handler and in every thread; never blocks.
        """
        self._requests.put(StopRequest(reason=reason, insistent=insistent, failed=failed, unwell=unwell))

    def rouse(self) -> None:
        """Make the main thread look again at what it is waiting for."""
        self._requests.put(None)

    def wait(self, deadline: Deadline, until: Callable[[], bool] = lambda: False) -> StopRequest | None:
        """Block the main thread for a request and return it; None at the *deadline* or once *until* holds.

        *until* is looked at again whenever somebody calls `rouse`.
        """
        while not until():
            for sign in self._signs:
                sign()
            try:
                request = self._requests.get(timeout=min(deadline.remaining, SIGNAL_LOOK))
            except Empty:
                if deadline.expired:
                    return None
            else:
                if request is not None:
                    return request
        return None

    def stop(self, reason: str) -> None:
        """Begin the way to the end."""
        self._end(State.STOPPING, reason)

    def end_handlers(self) -> None:
        """Tell the handlers that the worker no longer waits for them."""
        self._handlers_must_end = True

    def stopped(self, reason: str) -> None:
        """The end is reached."""
        self._end(State.STOPPED, reason)

    def _end(self, after: State, reason: str) -> None:
        with self._lock:
            before, self._state = self._state, after
            self.stopping = True
        self._tell(before, after, reason)

    def _tell(self, before: State, after: State, reason: str) -> None:
        if before is after:
            return
        self._events.emit(StateChanged(before=before.value, after=after.value, reason=reason))
        for watcher in self._watchers:
            watcher()
