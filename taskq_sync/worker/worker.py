"""The worker: owns its parts, starts them in order, and has them stopped.

::

    worker = Worker(tq, slots=16)
    sys.exit(worker.run())

What a part does is written in its own module, how they end in `shutdown`, the states in between in
`lifecycle`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from taskq_sync.client import TaskQ
from taskq_sync.clock import Deadline
from taskq_sync.db.schema import Schema
from taskq_sync.errors import ConfigError, DatabaseUnavailable, HookError, WrongState
from taskq_sync.hooks import WorkerProcess
from taskq_sync.worker import log
from taskq_sync.worker.application import Application
from taskq_sync.worker.config import WorkerConfig, WorkerOptions
from taskq_sync.worker.events import (
    ALREADY_RUNNING,
    Events,
    PartDied,
    QueuesLeftPaused,
    SingletonTaken,
    StartRefused,
    WorkerEnded,
    WorkerStarted,
)
from taskq_sync.worker.hooks import start_worker, stop_worker
from taskq_sync.worker.lifecycle import Lifecycle, StopRequest
from taskq_sync.worker.parts import make_parts
from taskq_sync.worker.shutdown import EXIT_DRAINED, EXIT_FAILED, EXIT_STUCK, Shutdown
from taskq_sync.worker.signals import Signals
from taskq_sync.worker.summary import Summary
from taskq_sync.worker.threads import in_main_thread

if TYPE_CHECKING:
    from typing_extensions import Unpack

EXIT_JOBS_FAILED = 4
EXIT_UNAVAILABLE = 69


class Worker:
    """Runs the jobs of some queues in this process. To be run once.

    `events` is where observers subscribe before the run. `summary` counts what became of the jobs, in a burst and with
    `fail_on_error`; else it stays at 0, for counting costs a little for each job.
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
        if queues is None:
            _check_tasks(tq, options.get("application"))
        self.config = WorkerConfig(queues=tq.registry.queues if queues is None else queues, **options)
        self._check_isolation(tq)
        self._check_singleton(tq)
        self.events = Events()
        log.observe(self.events)
        self.summary = Summary(self.config.worker_id)
        if self.config.burst or self.config.fail_on_error:
            self.summary.observe(self.events)
        self._database = tq.database
        self._hooks = tq.registry.hooks
        self._was_run = False
        self._owns_process = False
        self._in_hook = False  # of the process: nobody hears requests to stop
        self._insisted = 0
        self._lifecycle = Lifecycle(self.events)
        self._parts = make_parts(tq, self.config, self._lifecycle, self.events, self._ended)

    @property
    def worker_id(self) -> str:
        """The identity of this start of a worker."""
        return self.config.worker_id

    def run(self) -> int:
        """Run until somebody stops the worker, and return the exit code.

        0: drained. 1: a part of the worker died, verdicts could not be delivered, or a hook of
        `on_worker_start` failed. 3: there are handlers that would not end, or whose child processes had to be
        killed, and their jobs are released; or there were too many of them to go on; or a hook of the process
        did not end and a second request came. 4, with `fail_on_error`: drained, but jobs have failed and did
        not recover in this run. 69: the database was unavailable at the start.

        In the main thread SIGTERM and SIGINT stop the worker softly, and a second one does not wait; the same
        one within `signals.SAME_WITHIN` is no second one. Handlers that would not end are left behind there by
        ending the process, with the exit code. In any other thread `stop` is the way to end it. Raises
        `SchemaError` at the start, `WrongState` when it was run before.
        """
        if self._was_run:
            raise WrongState(f"worker {self.worker_id} was run before; make another one")
        self._was_run = True
        self._owns_process = in_main_thread()
        with Signals(self.stop):
            code = self._run()
        if code == EXIT_DRAINED and self.config.fail_on_error and self.summary.failing:
            code = EXIT_JOBS_FAILED
        if self.config.burst and self.summary.paused:
            self.events.emit(QueuesLeftPaused(queues=self.summary.paused))
        failing = self.summary.failing if self.config.fail_on_error else 0
        self.events.emit(WorkerEnded(worker_id=self.worker_id, exit_code=code, failing=failing))
        if self._owns_process and not self._parts.ended:
            _leave(code)
        return code

    def stop(self, reason: str = "stop() was called", *, insistent: bool = True) -> None:
        """Ask the worker to stop softly; asked again, it no longer waits for its handlers. Does not block.

        The log says *reason*. Without *insistent* a repetition changes nothing. Where `run` has the main thread, a
        repetition during a hook of the process ends the process, with exit code 3.
        """
        self._lifecycle.request_stop(reason, insistent=insistent)
        self._insisted += insistent
        if self._in_hook and insistent and self._insisted > 1 and self._owns_process:
            self.events.emit(WorkerEnded(worker_id=self.worker_id, exit_code=EXIT_STUCK))
            _leave(EXIT_STUCK)

    def _check_isolation(self, tq: TaskQ) -> None:
        isolated = [spec.name for spec in tq.registry if spec.isolation == "process"]
        if isolated and self.config.application is None:
            raise ConfigError(
                f"task {isolated[0]!r} runs in a child process, which has to find the program",
                hint='hand Worker an application=Application(app="module:attribute")',
            )

    def _check_singleton(self, tq: TaskQ) -> None:
        if self.config.singleton is not None and not tq.database.config.can_listen:
            raise ConfigError(
                f"singleton {self.config.singleton!r} is a lock that a pooler in transaction mode cannot hold",
                hint="set listen_dsn or TASKQ_LISTEN_DSN to a direct connection",
            )

    def _run(self) -> int:
        singleton = self._parts.singleton
        if singleton is None:
            return self._run_all()
        try:
            if singleton.take():
                return self._run_all()
        except DatabaseUnavailable as error:
            self._lifecycle.stopped(str(error))
            return EXIT_UNAVAILABLE
        finally:
            singleton.close()
        self.events.emit(SingletonTaken(singleton=singleton.singleton))
        self._lifecycle.stopped(ALREADY_RUNNING)
        return EXIT_DRAINED

    def _run_all(self) -> int:
        process = WorkerProcess(worker_id=self.worker_id, is_child=False, events=self.events)
        try:
            with self._hook():
                start_worker(self._hooks, process)
            return self._serve()
        except HookError as error:
            self.events.emit(StartRefused(error=error))
            self._lifecycle.stopped("a hook refused the start")
            return EXIT_FAILED
        finally:
            with self._hook():
                stop_worker(self._hooks, process, self.events)

    @contextmanager
    def _hook(self) -> Iterator[None]:
        self._in_hook = True
        try:
            yield
        finally:
            self._in_hook = False

    def _serve(self) -> int:
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
            if parts.singleton is not None:
                parts.singleton.start()
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


def _check_tasks(tq: TaskQ, application: Application | None) -> None:
    """Refuse a program without tasks: nobody has said which queues to serve either."""
    if not tq.registry.queues:
        name = None if application is None else application.app
        raise ConfigError(
            f"{name or 'the program'} has no tasks",
            hint="import the modules that define them (--import shop.tasks), or name --queues",
        )


def _leave(code: int) -> NoReturn:
    """End the process with threads in it that will not end; what is buffered is written first."""
    try:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, full, or in the middle of being written to
                stream.flush()
    finally:
        os._exit(code)
