"""The singleton: at most one worker of a name at a time, by a lock that lasts as long as its connection.

Whoever finds the lock taken has nothing to do. A process that dies gives it up, because its connection ends.
"""

from __future__ import annotations

from collections.abc import Callable

from taskq_sync.clock import Deadline
from taskq_sync.db.pool import Database
from taskq_sync.db.singleton import HeldName
from taskq_sync.db.workers import Workers
from taskq_sync.errors import TaskQError
from taskq_sync.worker.events import Events, SingletonLost
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.link import CALL_TIMEOUT
from taskq_sync.worker.threads import Event, Service

PART = "singleton"

#: How long it watches its connection, in seconds, before it looks whether it shall end.
ATTENTION = 0.2


class Singleton:
    """One thread with a connection of its own. `take` and `close` are for the main thread.

    The connection is used by the main thread until `start`, then by the thread, and again by the main thread when
    that has ended.
    """

    def __init__(
        self,
        *,
        name: str,
        singleton: str,
        database: Database,
        workers: Workers,
        lifecycle: Lifecycle,
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        """Have the lock called *singleton* taken; the thread and its connection are called *name*."""
        self.singleton = singleton
        self._name = name
        self._database = database
        self._workers = workers
        self._lifecycle = lifecycle
        self._events = events
        self._held: HeldName | None = None
        self._ending = Event()
        self._service = Service(name, self._run, ended)

    def take(self) -> bool:
        """Take the lock; return False when another worker has it.

        Blocks up to `CALL_TIMEOUT` twice. Raises `DatabaseUnavailable`, `SchemaError`.
        """
        session = self._database.connect_direct(self._name, CALL_TIMEOUT)
        try:
            with session.within(Deadline.after(CALL_TIMEOUT)):
                if self._workers.hold_singleton(session, self.singleton):
                    self._held = HeldName(session)
        finally:
            if self._held is None:
                session.close()
        return self._held is not None

    def start(self) -> None:
        """Start to watch the connection."""
        self._service.start()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def close(self) -> None:
        """End the thread, and give the lock back. May be called twice, and before `take` and `start`.

        Blocks for about `ATTENTION`, and up to `CALL_TIMEOUT`.
        """
        self._ending.set()
        if self._service.join(CALL_TIMEOUT) and self._held is not None:
            self._held.close()

    def _run(self) -> None:
        held = self._held
        while held is not None and not self._ending.is_set():
            try:
                held.watch(ATTENTION)
            except TaskQError as error:
                self._events.emit(SingletonLost(singleton=self.singleton, error=str(error)))
                self._lifecycle.request_stop(f"the lock of singleton {self.singleton} was lost")
                return
