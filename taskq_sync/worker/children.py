"""The child processes of a worker: kept for the next job, and replaced after so many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from taskq_sync.worker.application import Application
from taskq_sync.worker.child_process import ChildFailed, ChildProcess
from taskq_sync.worker.threads import Lock

#: What the children run.
PROGRAM = "taskq_sync.worker.child"


class Children:
    """At most one child for each slot, as each slot lends one at a time.

    `_lock` guards `_idle`, the latest last, and `_closed`; it is not held while a process starts or ends. `forced` is
    set for good by a slot whose child had to be killed for the worker to end.
    """

    def __init__(
        self,
        application: Application | None,
        *,
        worker_id: str,
        max_jobs: int,
        unwanted: Callable[[], bool],
    ) -> None:
        """Nothing starts. Without *application* there are no children; one that starts is given up once it is
        *unwanted*."""
        self._unwanted = unwanted
        self._application = application
        self._worker_id = worker_id
        self._max_jobs = max_jobs
        self._lock = Lock()
        self._idle: list[ChildProcess] = []
        self._closed = False
        self.forced = False

    @property
    def possible(self) -> bool:
        """Whether it is known how a child finds the program."""
        return self._application is not None

    @contextmanager
    def lend(self, *, fresh: bool) -> Iterator[ChildProcess]:
        """Lend a child; with *fresh* one that has run nothing, and will run nothing else.

        It comes back at the end of the block, and is kept if it still runs. An exception means that nobody knows
        what it is doing: it is killed. Blocks while a process starts. Raises `ChildFailed`.
        """
        child = self._spawn() if fresh else self._take() or self._spawn()
        child.jobs += 1
        try:
            yield child
        except BaseException:
            child.kill()
            raise
        if fresh or child.jobs >= self._max_jobs or not self._keep(child):
            child.end()

    def close(self) -> None:
        """End the idle children, and those that are lent when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _spawn(self) -> ChildProcess:
        if self._application is None:
            raise ChildFailed("the worker was not told where a child process finds the program")
        given = [self._worker_id, attrs.asdict(self._application)]
        return ChildProcess(PROGRAM, given, unwanted=self._unwanted)

    def _take(self) -> ChildProcess | None:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None or not child.has_ended:
                return child
            child.kill()  # it has died in its sleep

    def _keep(self, child: ChildProcess) -> bool:
        with self._lock:
            if not self._closed:
                self._idle.append(child)
            return not self._closed
