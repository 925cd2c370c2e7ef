"""A worker as its users run it: a process started by the command line, known by its log and its exit code."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from kit.waiting import PATIENCE, eventually

_TESTS = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_SERVES = re.compile(r"worker (\S+) serves ")


@frozen
class Usage:
    """What a process holds of the system: threads, open files, and processor time in seconds."""

    threads: int
    descriptors: int
    cpu: float


def is_alive(pid: int) -> bool:
    """Whether a process runs, and does not only wait for somebody to ask for its exit code."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def children_of(parent: int) -> list[int]:
    """Return the process ids of the children of a process, whichever of its threads has started them."""
    lists = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(pid) for each in lists for pid in each.read_text().split()]


class WorkerProcess:
    """`taskq-sync worker` with *arguments*, in a process group of its own, its log in *log*.

    `own_queue` is a queue that only this one serves, if it has one. *before* is put in front of the command. The
    environment has nothing in it that names a database but *env*.
    """

    def __init__(
        self, log: Path, arguments: Sequence[str], *, env: Mapping[str, str], before: Sequence[str] = ()
    ) -> None:
        self.log = log
        self.own_queue = ""
        self._children: set[int] = set()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "TASKQ_"))}
        clean.pop("DATABASE_URL", None)
        clean |= {"PYTHONPATH": str(_TESTS), "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1", **env}
        script = Path(sys.executable).with_name("taskq-sync")
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                [*before, str(script), "worker", *arguments],
                cwd=log.parent,
                env=clean,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def __repr__(self) -> str:
        return f"<{self.log.stem}, pid {self.pid}>"

    @property
    def pid(self) -> int:
        """The process id."""
        return self.popen.pid

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs, negative for a signal."""
        return self.popen.poll()

    @property
    def works(self) -> bool:
        """Whether it runs and is not suspended."""
        try:
            return self.code is None and self._stat()[0] not in "TZ"
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            return False

    @property
    def worker_id(self) -> str:
        """The identity of this start."""
        found = _SERVES.search(self.text)
        assert found is not None, f"the worker has not started: {self.text}"
        return found[1]

    @property
    def text(self) -> str:
        """What it has logged so far."""
        return self.log.read_text(errors="replace")

    def lines(self, pattern: str) -> list[str]:
        """Return the lines of its log in which the pattern is found."""
        return [line for line in self.text.splitlines() if re.search(pattern, line)]

    def wait_for(self, pattern: str, *, times: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until its log has so many lines with the pattern."""
        eventually(
            lambda: len(self.lines(pattern)) >= times or self.code is not None,
            f"the worker says {pattern!r}",
            timeout=timeout,
        )
        assert len(self.lines(pattern)) >= times, f"the worker ended with {self.code} and said: {self.text}"

    def wait_until_ready(self) -> WorkerProcess:
        """Wait until it claims."""
        self.wait_for(_SERVES.pattern)
        return self

    def wait_until_started_or_ended(self) -> None:
        """Wait until it claims, or is gone."""
        eventually(lambda: self.code is not None or self.lines(_SERVES.pattern), f"{self} starts")

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        self.popen.send_signal(number)

    def terminate(self) -> None:
        """Ask it to stop softly."""
        self._note_children()
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._note_children()
        self.send(signal.SIGKILL)
        self.popen.wait(PATIENCE)

    def suspend(self) -> None:
        """Let it do nothing until `resume`; its connections stay."""
        self.send(signal.SIGSTOP)
        eventually(lambda: self._stat()[0] == "T", "the worker stands still")

    def resume(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for its end and return the exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.popen.wait(timeout)
        raise AssertionError(f"after {timeout:g} s the worker has not ended; it says: {self.text}")

    def end(self) -> None:
        """Kill it and whatever it has started, if anything still runs."""
        self._note_children()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait(PATIENCE)

    def children(self) -> list[int]:
        """Return the process ids of its children, whichever thread has started them."""
        return children_of(self.pid)

    def left_children(self) -> list[int]:
        """Return those of its children that still run though it has ended."""
        return [] if self.code is None else [pid for pid in self._children if is_alive(pid)]

    def _note_children(self) -> None:
        with contextlib.suppress(
            FileNotFoundError, ProcessLookupError
        ):  # it, or a thread of it, has just ended
            self._children |= set(self.children())

    def usage(self) -> Usage:
        """Return what it holds at this moment."""
        fields = self._stat()
        cpu = (int(fields[11]) + int(fields[12])) / _TICKS
        descriptors = len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
        return Usage(threads=int(fields[17]), descriptors=descriptors, cpu=cpu)

    def cpu_share(self, seconds: float) -> float:
        """Watch it for so many seconds and return how much of one processor it used."""
        before, began = self.usage().cpu, time.monotonic()
        time.sleep(seconds)
        return (self.usage().cpu - before) / (time.monotonic() - began)

    def _stat(self) -> list[str]:
        # behind the name, which may have anything in it: state ppid ...
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
