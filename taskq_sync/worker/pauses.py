"""Which of the served queues are paused, as far as this worker knows."""

from __future__ import annotations

from collections.abc import Iterable

from taskq_sync.worker.events import Events, QueuesPaused
from taskq_sync.worker.threads import Lock


class Pauses:
    """The database gives no job of a paused queue; this is for the jobs that were claimed just before.

    Written by the claimer and by the housekeeper, each with what it heard and the monotonic instant before it
    asked: an answer to an older question must not undo that to a newer one. `queues` is replaced as a whole, so
    that readers need no lock.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._lock = Lock()
        self._asked_at = 0.0
        self.queues: frozenset[str] = frozenset()

    def update(self, queues: Iterable[str], *, asked_at: float) -> None:
        """These queues were paused, and no others, some time after *asked_at*."""
        self._replace(frozenset(queues), asked_at)

    def claimed_from(self, queues: Iterable[str], *, asked_at: float) -> None:
        """A claim that was sent at *asked_at* has found jobs in these queues, so none of them was paused."""
        lifted = self.queues.intersection(queues) if self.queues else None
        if lifted:
            self._replace(self.queues - lifted, asked_at)

    def _replace(self, queues: frozenset[str], asked_at: float) -> None:
        with self._lock:
            if asked_at < self._asked_at:
                return
            self._asked_at = asked_at
            before, self.queues = self.queues, queues
        if queues != before:
            resumed = tuple(sorted(before - queues))
            self._events.emit(QueuesPaused(queues=tuple(sorted(queues)), resumed=resumed))
