"""The worker processes, started as a user starts them, and started again when they are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.soak import ledger
from benchmarks.soak.tasks import LEASE, QUEUE

_REPOSITORY = Path(__file__).parents[2]

#: Seconds for a soft stop when nothing is left to do.
_STOP_TIMEOUT = 30.0

#: How a worker may end: stopped softly, or before it had begun to listen to signals; killed by us; the database was
#: away at its start.
EXPECTED_EXITS = frozenset({0, -signal.SIGTERM, -signal.SIGKILL, 69})


class Workers:
    """*count* workers with *slots* threads each. `exits` counts by exit code, negative for a signal.

    For one thread, which calls `tend` every now and then.
    """

    def __init__(self, dsn: str, folder: Path, *, count: int, slots: int) -> None:
        self.exits: Counter[int] = Counter()
        self._folder = folder
        self._command = [
            str(Path(sys.executable).with_name("taskq-sync")),
            *("worker", "--app", "benchmarks.soak.application:tq", "--queues", QUEUE, "--slots", str(slots)),
            *("--lease", f"{LEASE:g}", "--take-back-every", "1", "--log-level", "warning"),
        ]
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "TASKQ_"))}
        clean.pop("DATABASE_URL", None)
        self._environment = {
            **clean,
            "TASKQ_DSN": dsn,
            "PYTHONPATH": str(_REPOSITORY),
            ledger.VARIABLE: str(folder / "ledger"),
        }
        self._processes = [self._start(index) for index in range(count)]

    def pid(self, index: int) -> int:
        """The process id of one of them, which may just have ended."""
        return self._processes[index].pid

    def kill(self, index: int) -> None:
        """`kill -9` one of them. The next `tend` starts it again."""
        self._processes[index].kill()
        self._processes[index].wait()

    def tend(self) -> None:
        """Start again what has ended."""
        for index, process in enumerate(self._processes):
            code = process.poll()
            if code is not None:
                self.exits[code] += 1
                self._processes[index] = self._start(index)

    def stop(self) -> None:
        """Stop all of them softly, and count their exits."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + _STOP_TIMEOUT
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        self.close()

    def close(self) -> None:
        """Kill what still runs. May be called again."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
            self.exits[process.wait()] += 1

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        with (self._folder / f"worker-{index}.log").open("ab") as log:
            return subprocess.Popen(
                self._command,
                cwd=_REPOSITORY,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
