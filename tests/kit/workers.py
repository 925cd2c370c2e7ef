"""Workers in a thread of the test, and what they have reported."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kit.waiting import PATIENCE, eventually
from taskq_sync import JobContext, TaskQ
from taskq_sync.worker import Worker, events
from taskq_sync.worker.events import WorkerEvent

EventType = TypeVar("EventType", bound=WorkerEvent)

KINDS: list[type[WorkerEvent]] = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, WorkerEvent) and kind is not WorkerEvent
]


class WorkerThread:
    """A worker that runs in a thread; `code` is its exit code once it has ended.

    *ignore* are kinds of events that are not subscribed to, for tests that count what an observer costs.
    """

    def __init__(self, tq: TaskQ, **options: Any) -> None:
        self.worker = Worker(tq, **options)
        self.seen: list[WorkerEvent] = []
        for kind in KINDS:
            self.worker.events.subscribe(kind, self.seen.append)
        self.code: int | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="test-worker")

    def start(self) -> WorkerThread:
        """Start it and wait until it claims."""
        self._thread.start()
        self.wait_for(events.WorkerStarted)
        return self

    def stop(self) -> int:
        """Ask it to stop, wait for its end and return the exit code."""
        self.worker.stop()
        return self.join()

    def join(self) -> int:
        """Wait for its end and return the exit code."""
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the worker does not end"
        if self.error is not None:
            raise self.error
        assert self.code is not None
        return self.code

    def of(self, kind: type[EventType]) -> list[EventType]:
        """Return what was reported of one kind, in order."""
        return [event for event in list(self.seen) if isinstance(event, kind)]

    def wait_for(
        self, kind: type[EventType], where: Callable[[EventType], object] = lambda event: True
    ) -> EventType:
        """Return the first event of the *kind* for which *where* holds; wait for it."""

        def found() -> list[EventType]:
            return [event for event in self.of(kind) if where(event)]

        eventually(
            lambda: found() or self.code is not None or self.error, f"the worker reports {kind.__name__}"
        )
        assert found(), (
            f"the worker ended with {self.code or self.error!r} and never reported {kind.__name__}"
        )
        return found()[0]

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.code = self.worker.run()
        except BaseException as error:
            self.error = error


class Gate:
    """Where a handler waits until the test lets it on; its context and what it raised are left here."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.ctx: JobContext | None = None
        self.error: BaseException | None = None

    def pass_through(self, ctx: JobContext) -> None:
        """Called by the handler: say that it is here, and wait until the gate opens."""
        self.ctx = ctx
        self.entered.set()
        assert self.open.wait(PATIENCE)

    def wait(self) -> JobContext:
        """Called by the test: wait until a handler is here, and return its context."""
        assert self.entered.wait(PATIENCE), "no handler has come to the gate"
        assert self.ctx is not None
        return self.ctx
