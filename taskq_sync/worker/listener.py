"""The listener: wakes the claimer when the database says that something has become due, and has the worker
announce itself when an operator calls it.

It only saves time. While it cannot listen, the worker looks more often by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from taskq_sync.backoff import Backoff
from taskq_sync.db.listen import call_of
from taskq_sync.db.pool import Database
from taskq_sync.errors import TaskQError
from taskq_sync.worker.claimer import Claimer
from taskq_sync.worker.config import WorkerConfig
from taskq_sync.worker.events import Events, ListeningChanged
from taskq_sync.worker.link import CALL_TIMEOUT, FIRST_PAUSE, LONGEST_PAUSE
from taskq_sync.worker.threads import Event, Service

#: How long it listens, in seconds, before it looks whether it shall end.
ATTENTION = 0.5


class NotificationListener:
    """One thread with a connection of its own, outside any transaction."""

    def __init__(
        self,
        *,
        name: str,
        config: WorkerConfig,
        database: Database,
        claimer: Claimer,
        called: Callable[[], None],
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        """*called* is called when an operator wants something of this worker; it must not block."""
        self._name = name
        self._queues = frozenset(config.queues)
        self._call = call_of(config.worker_id)
        self._called = called
        self._database = database
        self._claimer = claimer
        self._events = events
        self._backoff = Backoff(base=FIRST_PAUSE, cap=LONGEST_PAUSE)
        self._hears: bool | None = None
        self._ending = Event()
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread."""
        self._service.start()

    def stop(self) -> None:
        """End within `ATTENTION`. Does not block; may be called twice, and before `start`."""
        self._ending.set()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        return self._service.join(timeout)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._listen()
            except TaskQError as error:
                self._changed(False, str(error))
                self._ending.wait(self._backoff.next())

    def _listen(self) -> None:
        listener = self._database.listen(self._name, CALL_TIMEOUT)
        try:
            self._backoff.reset()
            self._changed(True, None)
            while not self._ending.is_set():
                heard = listener.wait(ATTENTION)
                if heard & self._queues:
                    self._claimer.notify()
                if self._call in heard:
                    self._called()
        finally:
            listener.close()

    def _changed(self, hears: bool, error: str | None) -> None:
        if hears is self._hears:
            return
        self._hears = hears
        self._claimer.listening(hears)
        if hears:
            self._called()  # somebody may have called before
        self._events.emit(ListeningChanged(listening=hears, error=error))
