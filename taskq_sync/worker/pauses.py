"""Which of the served queues are paused, as far as this worker knows."""

from __future__ import annotations

from collections.abc import Iterable

from taskq_sync.worker.events import Events, QueuesPaused


class Pauses:
    """The database gives no job of a paused queue; this is for the jobs that were claimed just before.

    Written by the claimer and by the housekeeper, each with what it last heard; `queues` is replaced as a
    whole.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self.queues: frozenset[str] = frozenset()

    def update(self, queues: Iterable[str]) -> None:
        """These queues are paused, and no others."""
        paused = frozenset(queues)
        if paused != self.queues:
            self.queues = paused
            self._events.emit(QueuesPaused(queues=tuple(sorted(paused))))
