"""`taskq-sync demo` as a process: what it proves, and that nothing of it is left."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.command import CommandLine, Result, interrupt_group
from kit.waiting import eventually

#: Seconds for a run over the whole library, on a machine that has other things to do.
FULL_RUN = 900.0

EXTRA_JOBS = 6


class Demo:
    """The command, with a folder for its temporary files that must be empty at the end."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary
        self.env = {"TMPDIR": str(temporary), "TASKQ_DSN": "postgresql://nowhere.invalid/", "PGPORT": "1"}
        self._command = CommandLine(temporary, None)

    def run(self, *options: str) -> Result:
        with self.start(*options) as process:
            out, err = process.communicate(timeout=FULL_RUN)
        return Result(process.returncode, out, err)

    def start(self, *options: str):
        return self._command.start("demo", *options, env=self.env)

    def left(self) -> list[Path]:
        return list(self.temporary.iterdir())

    def server_pids(self) -> list[int]:
        return [
            int(each.read_text().split()[0]) for each in self.temporary.glob("*/server/data/postmaster.pid")
        ]


@pytest.fixture
def demo() -> Iterator[Demo]:
    # Not pytest's own folder: the server of root runs under another account, which could not enter that.
    folder = Path(tempfile.mkdtemp(prefix="taskq-test-demo-"))
    folder.chmod(0o711)
    try:
        yield Demo(folder)
    finally:
        shutil.rmtree(folder)


def test_shows_every_outcome_and_proves_that_no_job_is_lost(demo):
    done = demo.run("--limit", "120", "--json")

    found = done.json
    assert done.err == ""
    assert found["enqueued"] == 120 + EXTRA_JOBS
    assert (found["failed"], found["cancelled"], found["lost"]) == (3, 3, 0)
    assert found["succeeded"] == 120
    assert found["outcomes"] == {
        "success": 120,
        "non_retryable": 2,
        "retry_exhausted": 1,
        "cancelled": 2,
        "expired_ttl": 1,
    }
    assert (found["snoozes"], found["retried"]) == (3, 3)
    assert (found["workers_killed"], found["taken_back"], found["started_twice"]) == (0, 0, 0)
    assert found["proven"] is True
    assert demo.left() == []


def test_loses_nothing_when_a_worker_is_killed(demo):
    found = demo.run("--limit", "300", "--chaos", "--json").json

    assert found["workers_killed"] == 1
    assert found["started_twice"] > 0
    assert found["taken_back"] >= found["started_twice"]
    assert (found["enqueued"], found["lost"]) == (300 + EXTRA_JOBS, 0)
    assert found["proven"] is True
    assert demo.left() == []


def test_indexes_the_whole_library(demo):
    done = demo.run()

    assert (done.code, done.err) == (0, "")
    proof = done.out.splitlines()[-1]
    enqueued, succeeded, failed, cancelled, lost = map(int, re.findall(r"\d+", proof))
    assert enqueued > 500
    assert enqueued == succeeded + failed + cancelled
    assert lost == 0
    assert demo.left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_server_and_no_files(demo, number):
    with demo.start("--limit", "300") as process:
        logs = demo.temporary.glob
        eventually(
            lambda: any(log.stat().st_size for log in logs("*/demo-worker.log")), "the worker has started"
        )
        [server] = demo.server_pids()
        if number == signal.SIGINT:
            interrupt_group(process)
        else:
            process.terminate()
        out, err = process.communicate(timeout=FULL_RUN)

    assert (process.returncode, out, err) == (130, "", "taskq-sync: interrupted\n")
    assert demo.left() == []
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


def test_shows_its_progress_on_a_terminal(demo):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [Path(sys.executable).with_name("taskq-sync"), "demo", "--limit", "20"],
        env={**os.environ, **demo.env, "TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        shown = _read_all(terminal)

    assert process.wait(FULL_RUN) == 0
    assert "indexing the standard library" in shown


def _read_all(terminal) -> str:
    parts = []
    while True:
        try:
            part = terminal.read(65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode(errors="replace")
