"""When a process has done enough: then it stops softly, and its supervisor starts a fresh one in its place.

For programs that grow. Nothing is dropped: the handlers that run have their time, as in any soft stop.
"""

from __future__ import annotations

from taskq_sync.worker.config import WorkerConfig
from taskq_sync.worker.events import Events, JobEnded, JobStarted, WorkerSpent
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.memory import resident_memory
from taskq_sync.worker.threads import Lock

_MIB = 1024 * 1024


class Recycling:
    """`_lock` guards the count and `_spent`; the slots count, and the housekeeper looks. `_begun` is set by a slot."""

    def __init__(self, config: WorkerConfig, lifecycle: Lifecycle, events: Events) -> None:
        """Observe *events*, if there is a limit."""
        self._max_jobs = config.max_jobs_per_child
        self._max_memory = config.max_memory_per_child
        self._lifecycle = lifecycle
        self._events = events
        self._lock = Lock()
        self._jobs = 0
        self._spent = False
        self._begun = False
        if self._max_jobs is not None:
            events.subscribe(JobEnded, self._count)
        if self._max_memory is not None:
            events.subscribe(JobStarted, self._begin)

    def look(self) -> None:
        """Measure the memory, if there is a limit of it.

        A process runs one job in any case: it may be too large as soon as it serves, and so would be the next one.
        """
        if self._max_memory is None or self._spent or not self._begun:
            return
        taken = resident_memory()
        if taken > self._max_memory:
            self._end(f"it takes {taken // _MIB} MiB of memory, the limit is {self._max_memory // _MIB} MiB")

    def _begin(self, event: JobStarted) -> None:
        self._begun = True

    def _count(self, event: JobEnded) -> None:
        with self._lock:
            self._jobs += 1
            enough = self._jobs == self._max_jobs
        if enough:
            self._end(f"it has run {self._max_jobs} jobs")

    def _end(self, reason: str) -> None:
        with self._lock:
            if self._spent:
                return
            self._spent = True
        self._events.emit(WorkerSpent(reason=reason))
        self._lifecycle.request_stop(reason)
