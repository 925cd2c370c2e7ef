"""Child processes where the system has nothing left to give."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kit.waiting import PATIENCE
from taskq_sync.worker.child_process import ChildFailed, ChildProcess


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.parametrize(("module", "name"), [(socket, "socketpair"), (os, "pipe")])
def test_a_child_for_which_there_are_no_descriptors_could_not_be_started(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants one can go on without it, or try again; and nothing is left open."""
    before = open_descriptors()
    monkeypatch.setattr(module, name, _refuse)
    with pytest.raises(ChildFailed, match=r"could not be started: .*Too many open files"):
        ChildProcess("taskq_sync.worker.beat_child", [], unwanted=lambda: False)
    assert open_descriptors() == before


def _refuse(*given: object) -> NoReturn:
    raise OSError(24, "Too many open files")


BEGINNING = """
import sys, time
from taskq_sync.worker.child_start import begin
begin(*map(int, sys.argv[1:]))
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("dies", ["before it", "after it"])
def test_a_child_ends_with_its_worker_however_early_that_dies(dies: str) -> None:
    """Even before the kernel was asked to kill it; the import of the program, which follows, may never end."""
    ours, theirs = socket.socketpair()
    lifeline, other_end = os.pipe()
    with ours, theirs:
        if dies == "before it":
            os.close(other_end)
        with subprocess.Popen(
            [sys.executable, "-c", BEGINNING, str(theirs.fileno()), str(lifeline)],
            pass_fds=(theirs.fileno(), lifeline),
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            said = child.stdout.readline()
            if dies == "after it":
                assert said == "begun\n"
                os.close(other_end)
            assert child.wait(PATIENCE) == (1 if dies == "before it" else -signal.SIGKILL)
    os.close(lifeline)
