"""Where the demo plays: a folder, a server in it, and worker processes. All of it is gone at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from taskq_sync.errors import TaskQError

#: Seconds for a worker to end by itself.
STOP_TIMEOUT = 20.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class WorkerProcess:
    """One `taskq-sync worker` of the demo. It is a group of its own, so a Ctrl-C of the terminal is for us alone."""

    def __init__(self, name: str, log: Path, *options: str) -> None:
        self.name = name
        self._log = log
        command = [sys.executable, "-W", "ignore", "-m", "taskq_sync", "worker"]
        application = ["--app", "taskq_sync.demo.tasks:tq", "--worker-id", name, "--log-level", "warning"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *application, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise `TaskQError` if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise TaskQError(
                f"{self.name} of the demo ended with {code}: {' '.join(said) or 'it said nothing'}"
            )

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep it from running for the length of the block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a power failure would: by SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it softly, by force after `STOP_TIMEOUT`; at once if it has ended."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def crew(names: Sequence[str], logs: Path, *options: str) -> Iterator[list[WorkerProcess]]:
    """Start a worker for each name; those that are left are stopped at the end."""
    with contextlib.ExitStack() as stack:
        workers = []
        for name in names:
            worker = WorkerProcess(name, logs / f"{name}.log", *options)
            stack.callback(worker.stop)
            workers.append(worker)
        yield workers


@contextmanager
def folder() -> Iterator[Path]:
    """Lend a new folder."""
    with tempfile.TemporaryDirectory(prefix="taskq-demo-") as name:
        if os.geteuid() == 0:
            Path(name).chmod(0o711)  # the server runs under another account then, and has to pass
        yield Path(name)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Make *variables* all that this process and its children find of what names a database."""
    before = dict(os.environ)
    for name in before:
        if name == "DATABASE_URL" or name.startswith(("PG", "TASKQ_")):
            del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def one_interrupt() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, but only once.

    To be entered before what has to be cleaned up: after the first one, the cleaning is not interrupted.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        ignore_signals()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore SIGINT and SIGTERM until `one_interrupt` ends."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
