"""The worker: owns its parts, starts them in order, and has them stopped.

::

    worker = Worker(tq, slots=16)
    sys.exit(worker.run())

What a part does is written in its own module, how they end in `shutdown`, the states in between in
`lifecycle`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from taskq_sync.client import TaskQ
from taskq_sync.clock import Deadline
from taskq_sync.db.schema import Schema
from taskq_sync.errors import ConfigError, DatabaseUnavailable, WrongState
from taskq_sync.worker import log
from taskq_sync.worker.config import WorkerConfig, WorkerOptions
from taskq_sync.worker.events import Events, PartDied, WorkerEnded, WorkerStarted
from taskq_sync.worker.lifecycle import Lifecycle, StopRequest
from taskq_sync.worker.parts import make_parts
from taskq_sync.worker.shutdown import Shutdown
from taskq_sync.worker.signals import Signals
from taskq_sync.worker.threads import in_main_thread

if TYPE_CHECKING:
    from typing_extensions import Unpack

EXIT_UNAVAILABLE = 69


class Worker:
    """Runs the jobs of some queues in this process. To be run once.

    `events` is where observers subscribe before the run.
    """

    def __init__(
        self,
        tq: TaskQ,
        *,
        queues: Mapping[str, int] | Iterable[str] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Prepare a worker for the tasks of *tq*; nothing connects or starts.

        *queues* are those of the tasks if None; `{"high": 4, "low": 1}` gives them weights. The options are those
        of `WorkerConfig`. Raises `ConfigError`, also for a task whose parameters cannot be restored from JSON, and
        for one that runs in a child process when no *application* is given.
        """
        tq.registry.check()
        self.config = WorkerConfig(queues=tq.registry.queues if queues is None else queues, **options)
        self._check_isolation(tq)
        self.events = Events()
        log.observe(self.events)
        self._database = tq.database
        self._was_run = False
        self._lifecycle = Lifecycle(self.events)
        self._parts = make_parts(tq, self.config, self._lifecycle, self.events, self._ended)

    @property
    def worker_id(self) -> str:
        """The identity of this start of a worker."""
        return self.config.worker_id

    def run(self) -> int:
        """Run until somebody stops the worker, and return the exit code.

        0: drained. 1: a part of the worker died, or verdicts could not be delivered. 3: there are handlers
        that would not end, and their jobs are released; or there were too many of them to go on. 69: the
        database was unavailable at the start.

        In the main thread SIGTERM and SIGINT stop the worker softly, and a second one does not wait; and
        handlers that would not end are left behind there by ending the process, with the exit code. In any
        other thread `stop` is the way to end it. Raises `SchemaError` at the start, `WrongState` when it
        was run before.
        """
        if self._was_run:
            raise WrongState(f"worker {self.worker_id} was run before; make another one")
        self._was_run = True
        with Signals(partial(self._lifecycle.request_stop, insistent=True)):
            code = self._run()
        self.events.emit(WorkerEnded(worker_id=self.worker_id, exit_code=code))
        if in_main_thread() and not self._parts.ended:
            _leave(code)
        return code

    def stop(self) -> None:
        """Ask the worker to stop softly; asked again, it no longer waits for its handlers. Does not block."""
        self._lifecycle.request_stop("stop() was called", insistent=True)

    def _check_isolation(self, tq: TaskQ) -> None:
        isolated = [spec.name for spec in tq.registry if spec.isolation == "process"]
        if isolated and self.config.application is None:
            raise ConfigError(
                f"task {isolated[0]!r} runs in a child process, which has to find the program",
                hint='hand Worker an application=Application(app="module:attribute")',
            )

    def _run(self) -> int:
        try:
            self._start()
        except DatabaseUnavailable as error:
            self._lifecycle.stopped(str(error))
            return EXIT_UNAVAILABLE
        limit = self.config.max_seconds
        request = self._lifecycle.wait(Deadline.never() if limit is None else Deadline.after(limit))
        return self._stop(request or StopRequest(reason=f"{limit:g} s have passed"))

    def _start(self) -> None:
        """Start the parts, those first to which the others hand their work."""
        parts = self._parts
        with self._database.connection() as session:
            Schema(self._database.config.schema).check_client(session.connection)
            parts.presence.announce(session)
        self._lifecycle.watch(parts.claimer.wake)
        self._lifecycle.watch(parts.housekeeper.hurry)
        try:
            parts.settler.start()
            parts.heartbeat.start()
            parts.limits.start()
            parts.slots.start()
            parts.housekeeper.start()
            if parts.listener is not None:
                parts.listener.start()
            parts.claimer.start()
        except BaseException:  # the system has no more threads: end those that run
            self._stop(StopRequest(reason="the start failed", failed=True))
            raise
        self._lifecycle.ready()
        self.events.emit(
            WorkerStarted(worker_id=self.worker_id, queues=tuple(self.config.queues), slots=self.config.slots)
        )

    def _stop(self, request: StopRequest) -> int:
        return Shutdown(self._parts, self.config, self._lifecycle, self.events, request).run()

    def _ended(self, name: str, error: BaseException | None) -> None:
        """A thread of a part is about to end; called by it."""
        if error is not None:
            self.events.emit(PartDied(part=name, error=error))
            self._lifecycle.request_stop(f"{name} died", failed=True)
        self._lifecycle.rouse()


def _leave(code: int) -> NoReturn:
    """End the process with threads in it that will not end; what is buffered is written first."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
