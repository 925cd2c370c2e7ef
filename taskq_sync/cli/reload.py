"""The worker of `taskq-sync dev`: one process, started anew whenever the program has changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import click

from taskq_sync.backoff import Backoff
from taskq_sync.cli.sources import Sources
from taskq_sync.clock import monotonic
from taskq_sync.worker.child_process import describe_exit
from taskq_sync.worker.supervisor import SupervisedProcess, Wakeups

#: Seconds between two looks at the files; more where a look takes long.
LOOK_EVERY = 0.5
_LOOKS_SHARE = 0.1

#: Handlers have so many seconds to end before a worker is started anew; then their jobs are released.
HANDLERS_PATIENCE = 2.0

#: And the process so many more, before it is killed.
PROCESS_PATIENCE = 10.0


class ReloadedWorker:
    """Runs in the main thread, until the worker has ended for good.

    `_push_at` is the instant at which a process that is to be replaced is pushed harder; `math.inf` otherwise.
    `_start_at` is when the next process starts; `math.inf` while one runs, and while only a change would help.
    """

    def __init__(
        self, start: Callable[[], SupervisedProcess], sources: Sources | None, wakeups: Wakeups
    ) -> None:
        """Nothing starts. Without *sources* nothing is started anew."""
        self._start = start
        self._sources = sources
        self._wakeups = wakeups
        self._process: SupervisedProcess | None = None
        self._start_at = 0.0
        self._look_at = monotonic() + LOOK_EVERY
        self._push_at = math.inf
        self._pushed = False
        self._has_served = False
        self._stopping = False
        self._backoff = Backoff(base=1.0, cap=60.0)

    def run(self) -> int:
        """Return the exit code: when a signal has stopped the worker, when the first one cannot start, and when one
        ends by itself with 0; without reloading whenever it ends."""
        while True:
            self._obey()
            code = self._look_at_process()
            if code is not None:
                return code
            self._look_at_files()
            self._push()
            self._wait()

    def _obey(self) -> None:
        while self._wakeups.take_stop() is not None:
            # A process that is being replaced has been asked already: another signal would be the second one.
            asked = not self._stopping and self._push_at < math.inf
            self._stopping = True
            self._push_at = math.inf
            if self._process is not None and not asked:
                self._process.stop()

    def _look_at_process(self) -> int | None:
        """Start a process that is due. Return the exit code for `dev` if all is over."""
        process = self._process
        if process is None:
            if self._stopping:
                return 0
            if monotonic() >= self._start_at:
                self._start_at = math.inf
                self._process = self._start()
            return None
        code = process.code
        process.hear()
        served = process.serves_since is not None
        self._has_served = self._has_served or served
        if code is None:
            return None
        process.close()
        self._process = None
        return self._ended(process.code or 0, served)

    def _ended(self, code: int, served: bool) -> int | None:
        replaced, self._push_at, self._pushed = self._push_at < math.inf, math.inf, False
        if self._stopping and not served and code < 0:
            return 0  # it had not begun to work
        if replaced:
            self._start_at = 0.0
            return None
        if self._stopping or self._sources is None or not self._has_served or code == 0:
            return code if code >= 0 else 128 - code
        if served:
            pause = self._backoff.next()
            self._start_at = monotonic() + pause
            click.echo(f"the worker {describe_exit(code)}; it starts again in {pause:.1f} s", err=True)
        else:
            click.echo(f"the worker {describe_exit(code)}; it starts again after the next change", err=True)
        return None

    def _look_at_files(self) -> None:
        now = monotonic()
        if self._sources is None or self._stopping or now < self._look_at:
            return
        changed = self._sources.changed()
        self._look_at = monotonic() + max(LOOK_EVERY, (monotonic() - now) / _LOOKS_SHARE)
        if not changed:
            return
        click.echo(f"{_names(changed)} changed: the worker starts anew", err=True)
        self._backoff.reset()
        if self._process is None:
            self._start_at = 0.0
        elif self._push_at == math.inf:
            self._process.stop()
            self._push_at = now + HANDLERS_PATIENCE

    def _push(self) -> None:
        if self._process is None or monotonic() < self._push_at:
            return
        if self._pushed:
            self._process.kill()
        else:
            self._process.stop()
        self._pushed = True
        self._push_at = monotonic() + PROCESS_PATIENCE

    def _wait(self) -> None:
        if self._wakeups.stop_wanted:
            return
        until = min(self._start_at, self._push_at, monotonic() + 1.0)
        if self._sources is not None:
            until = min(until, self._look_at)
        channel = None if self._process is None else self._process.channel
        self._wakeups.wait(until - monotonic(), () if channel is None else (channel,))


def _names(changed: list[Path]) -> str:
    first = changed[0]
    name = str(first.relative_to(Path.cwd()) if first.is_relative_to(Path.cwd()) else first)
    return f"{name} has" if len(changed) == 1 else f"{name} and {len(changed) - 1} more have"
