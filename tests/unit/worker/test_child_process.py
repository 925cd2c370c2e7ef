"""Child processes where the system has nothing left to give."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

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
