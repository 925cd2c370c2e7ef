"""A supervisor that meets a defect of its own."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from attrs import define

from taskq_sync.worker.supervisor import Supervisor


@define
class FakeProcess:
    """A process that ends when it is asked to stop twice, or has been looked at often enough."""

    pid: int = 100
    code: int | None = None
    channel: None = None
    serves_since: float | None = None
    spent: str | None = None
    refused: bool = False
    stops: int = 0
    looks: int = 0

    def hear(self) -> None:
        self.looks += 1
        self._end_if(self.looks == 4)

    def stop(self) -> None:
        self.stops += 1
        self._end_if(self.stops == 2)

    def close(self) -> None: ...

    def _end_if(self, reason: bool) -> None:
        if reason:
            self.code = 0


def test_a_signal_hurries_its_processes_also_after_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    process = FakeProcess()

    def defect(supervisor: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise ZeroDivisionError

    monkeypatch.setattr(Supervisor, "_start", lambda supervisor, index: process)
    monkeypatch.setattr(Supervisor, "_give_up", defect)
    with pytest.raises(ZeroDivisionError):
        Supervisor([], processes=1).run()
    assert process.stops == 2
