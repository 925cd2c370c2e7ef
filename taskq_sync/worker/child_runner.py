"""The runner of a child process: a runner that keeps to the memory limit of the task."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskq_sync.interrupts import Guard
from taskq_sync.registry import TaskSpec
from taskq_sync.worker.context import WorkerContext
from taskq_sync.worker.runner import Runner

_MIB = 1024 * 1024


class ChildRunner(Runner):
    """Runs attempts one after the other.

    `out_of_memory` is set for good by the first one that reached its limit: what it has left behind in the process
    nobody knows.
    """

    out_of_memory = False

    def _call(
        self, spec: TaskSpec, arguments: Mapping[str, Any], context: WorkerContext | None, guard: Guard | None
    ) -> object:
        limit = spec.memory_limit
        if limit is None:
            return super()._call(spec, arguments, context, guard)
        try:
            with memory_limit(limit):
                return super()._call(spec, arguments, context, guard)
        except MemoryError as error:
            self.out_of_memory = True
            # By now the limit is lifted, so there is room for the traceback.
            raise MemoryError(f"the memory limit of {limit / _MIB:g} MiB was reached") from error


@contextmanager
def memory_limit(limit: int) -> Iterator[None]:
    """Let this process take *limit* bytes of address space more than it has now; on Linux only.

    What goes beyond fails with MemoryError, in Python. In other code it may end the process by a signal.
    """
    if sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _address_space() + limit
    bounds = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *bounds]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Return the bytes of address space that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()
