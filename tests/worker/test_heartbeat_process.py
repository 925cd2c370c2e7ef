"""The heartbeat by a child process: what it keeps while the worker cannot, and when it stops."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.contract import Contract
from kit.outage import Outages
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.worker import beat_process, heartbeat
from taskq_sync.worker.events import (
    BeatProcessEnded,
    CancelDelivered,
    CheckpointRefused,
    LeaseDoubtful,
    LeaseWasLost,
    StateChanged,
)

Work = Callable[..., WorkerThread]


def child_of(worker: WorkerThread) -> int:
    """Return the process id of the child that beats for a worker."""
    process = worker.worker._parts.heartbeat._process
    assert process is not None
    child = process._child
    return 0 if child is None else child.pid


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def watcher(tq: TaskQ, sql: Contract) -> Iterator[None]:
    yield


def test_a_call_in_c_longer_than_the_lease_keeps_it(tq: TaskQ, work: Work, sql: Contract) -> None:
    ended: list[bool] = []

    @tq.task(queue="q", lease=1, max_attempts=1)
    def handler(ctx: JobContext) -> None:
        ctypes.PyDLL(None).sleep(4)
        ctx.checkpoint("after", flush=True)
        ended.append(ctx.cancelled)

    job_id = handler.enqueue().job_id
    worker = work(slots=2, heartbeat="process")
    eventually(lambda: sql.job(job_id)["status"] in ("succeeded", "failed"), "the job ends")
    print(worker.seen)
    assert sql.job(job_id)["status"] == "succeeded"
    assert ended == [False]
    assert not worker.of(LeaseDoubtful)
