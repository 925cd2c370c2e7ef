"""The heartbeat by a child process: what it keeps while the worker cannot, what it carries, and when it stops."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from kit.contract import Contract
from kit.outage import Outages
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.db.pool import Database
from taskq_sync.db.session import Session
from taskq_sync.errors import ConfigError, DatabaseUnavailable
from taskq_sync.worker import Worker, beat_process, heartbeat
from taskq_sync.worker.child_process import ChildFailed
from taskq_sync.worker.events import (
    BeatProcessEnded,
    BeatsWithheld,
    CancelDelivered,
    JobEnded,
    LeaseDoubtful,
    LeaseWasLost,
    StateChanged,
)

Work = Callable[..., WorkerThread]

#: A lease in seconds that is beaten, on a busy machine too, by a thread that first waits for a silent child.
LEASE = 6


@pytest.fixture
def beaten(tq: TaskQ, gate: Gate, sql: Contract, work: Work) -> Callable[..., tuple[WorkerThread, int]]:
    """Start a worker with a heartbeat by process whose one job, with so long a lease, is at the gate."""

    def start(lease: float, *, timeout: float | None = None, **options: object) -> tuple[WorkerThread, int]:
        @tq.task(queue="q", lease=lease, timeout=timeout, max_attempts=1)
        def handler(ctx: JobContext) -> str:
            gate.pass_through(ctx)
            return "through"

        job_id = handler.enqueue().job_id
        worker = work(**{"slots": 1, "heartbeat": "process", "take_back_every": 60, **options})
        gate.wait()
        return worker, job_id

    return start


def child_of(worker: WorkerThread) -> int:
    """Return the process id of the child that beats for *worker*, 0 when there is none."""
    process = worker.worker._parts.heartbeat._process
    assert process is not None
    child = process._child
    return 0 if child is None else child.pid


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_beat(sql: Contract, job_id: int) -> None:
    """Wait until the lease has been renewed."""
    before: datetime = sql.job(job_id)["lease_expires_at"]
    eventually(lambda: sql.job(job_id)["lease_expires_at"] > before, "the lease is renewed")


def wait_until_over(sql: Contract, job_id: int) -> None:
    """Wait until the lease is over."""
    eventually(
        lambda: sql.value("select taskq.clock() > %s", sql.job(job_id)["lease_expires_at"]), "it is over"
    )


def let_through(sql: Contract, gate: Gate, job_id: int) -> None:
    """Let the job end, and see that it has succeeded in its only attempt."""
    gate.open.set()
    eventually(lambda: sql.job(job_id)["status"] not in ("queued", "running"), "the job ends")
    assert (sql.job(job_id)["status"], sql.job(job_id)["attempt_count"]) == ("succeeded", 1)


def sessions(sql: Contract, part: str) -> int:
    return int(
        sql.value(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name like '%%-' || %s",
            part,
        )
    )


def test_the_child_sends_the_beats_and_the_worker_has_no_connection_for_them(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate
) -> None:
    worker, job_id = beaten(LEASE)
    wait_for_beat(sql, job_id)
    wait_for_beat(sql, job_id)
    assert (sessions(sql, "heartbeat-child"), sessions(sql, "heartbeat")) == (1, 0)
    let_through(sql, gate, job_id)
    child = child_of(worker)
    assert worker.stop() == 0
    assert not is_running(child)


def test_a_flushed_checkpoint_and_a_cancellation_go_through_the_child(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate
) -> None:
    worker, job_id = beaten(60)
    ctx = gate.wait()
    ctx.checkpoint({"done": 1}, flush=True)
    assert sql.job(job_id)["progress"] == {"done": 1}
    sql.cancel_job(job_id=job_id)
    ctx.checkpoint({"done": 2}, flush=True)  # which is a beat
    worker.wait_for(CancelDelivered)
    assert ctx.cancelled


def test_a_job_taken_away_is_reported_as_lost(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate
) -> None:
    worker, job_id = beaten(LEASE)
    with sql.conn.transaction():  # no beat comes in between
        sql.run_out(job_id)
        sql.take_back()
    worker.wait_for(LeaseWasLost)
    assert gate.wait().cancelled


def test_a_killed_child_costs_nothing_and_is_replaced(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate
) -> None:
    worker, job_id = beaten(LEASE)
    first = child_of(worker)
    os.kill(first, signal.SIGKILL)
    assert "SIGKILL" in worker.wait_for(BeatProcessEnded).reason
    eventually(lambda: child_of(worker) not in (0, first), "another child is there")
    wait_for_beat(sql, job_id)
    eventually(lambda: sessions(sql, "heartbeat-child"), "it beats")
    let_through(sql, gate, job_id)
    assert not worker.of(LeaseDoubtful)


def test_the_thread_beats_while_no_child_can_be_started(
    beaten: Callable[..., tuple[WorkerThread, int]],
    sql: Contract,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*given: object, **options: object) -> None:
        raise ChildFailed("there are no more processes")

    monkeypatch.setattr(beat_process, "ChildProcess", refuse)
    worker, job_id = beaten(1.5)
    wait_for_beat(sql, job_id)
    gate.wait().checkpoint("there", flush=True)
    assert worker.of(BeatProcessEnded)[0].reason == "there are no more processes"
    let_through(sql, gate, job_id)


def test_the_thread_beats_for_a_child_that_is_silent_and_has_it_replaced(
    beaten: Callable[..., tuple[WorkerThread, int]],
    sql: Contract,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat, "LONGEST_SILENCE", 1.0)
    worker, job_id = beaten(LEASE)
    wait_for_beat(sql, job_id)
    child = child_of(worker)
    os.kill(child, signal.SIGSTOP)
    wait_for_beat(sql, job_id)
    assert "did not answer" in worker.wait_for(BeatProcessEnded).reason
    assert not is_running(child)
    wait_for_beat(sql, job_id)
    let_through(sql, gate, job_id)
    assert not worker.of(LeaseWasLost)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_mean_the_worker_do_not_end_the_child(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate, number: int
) -> None:
    worker, job_id = beaten(1.5)
    child = child_of(worker)
    os.kill(child, number)
    gate.wait().checkpoint("there", flush=True)
    assert child_of(worker) == child
    assert os.getpgid(child) != os.getpgid(0)  # Ctrl-C at a terminal does not reach it at all
    let_through(sql, gate, job_id)
    assert not worker.of(BeatProcessEnded)


def test_a_child_without_a_database_makes_the_worker_degraded(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate, outages: Outages
) -> None:
    worker, job_id = beaten(1)
    with outages.away():
        worker.wait_for(LeaseDoubtful)
        eventually(lambda: worker.worker._lifecycle.ails(heartbeat.PART), "the heartbeat cannot beat")
        assert gate.wait().cancelled
    worker.wait_for(StateChanged, lambda event: (event.before, event.after) == ("degraded", "running"))
    assert not worker.worker._lifecycle.ails(heartbeat.PART)
    eventually(lambda: not gate.wait().cancelled, "a beat has healed the doubt")
    let_through(sql, gate, job_id)
    assert not worker.of(BeatProcessEnded)


def test_an_attempt_is_beaten_until_a_grace_after_its_time_limit(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate
) -> None:
    worker, job_id = beaten(1.5, timeout=0.5, stop_grace=0.5)
    wait_until_over(sql, job_id)
    assert worker.wait_for(LeaseDoubtful).job.job_id == job_id
    sql.take_back()
    assert sql.job(job_id)["status"] == "failed"


def test_a_verdict_that_waits_keeps_its_lease_though_the_time_limit_has_passed(
    beaten: Callable[..., tuple[WorkerThread, int]],
    sql: Contract,
    gate: Gate,
    outages: Outages,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = Database.connect
    refusing = threading.Event()

    def refuse(self: Database, name: str, timeout: float | None = None) -> Session:
        if refusing.is_set() and name.endswith("-settler"):
            raise DatabaseUnavailable("too many connections")
        return connect(self, name, timeout)

    monkeypatch.setattr(Database, "connect", refuse)
    worker, job_id = beaten(3, timeout=1, stop_grace=0.5)
    refusing.set()
    outages.cut("-settler")
    gate.open.set()
    worker.wait_for(JobEnded)
    for _ in range(3):
        wait_for_beat(sql, job_id)
    refusing.clear()
    let_through(sql, gate, job_id)


def test_nothing_is_beaten_while_the_main_thread_gives_no_sign(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate
) -> None:
    worker, job_id = beaten(1.5, stall_limit=2)
    wait_for_beat(sql, job_id)
    held = Gate()
    worker.worker._lifecycle.sign(lambda: held.open.wait() and None)
    wait_until_over(sql, job_id)
    assert worker.wait_for(BeatsWithheld).seconds == 2
    worker.wait_for(LeaseDoubtful)
    held.open.set()
    wait_for_beat(sql, job_id)
    eventually(lambda: not gate.wait().cancelled, "a beat has healed the doubt")
    let_through(sql, gate, job_id)


def test_a_child_that_does_not_know_an_attempt_is_told_again(
    beaten: Callable[..., tuple[WorkerThread, int]], sql: Contract, gate: Gate
) -> None:
    worker, job_id = beaten(LEASE)
    process = worker.worker._parts.heartbeat._process
    assert process is not None
    process.drop([sql.job(job_id)["current_attempt_id"]])
    wait_for_beat(sql, job_id)
    let_through(sql, gate, job_id)


def test_no_password_is_in_the_command_line_of_the_child(
    beaten: Callable[..., tuple[WorkerThread, int]], tq: TaskQ
) -> None:
    worker, _ = beaten(60)
    words = Path(f"/proc/{child_of(worker)}/cmdline").read_text(encoding="utf-8")
    assert worker.worker.worker_id in words
    assert tq.database.config.dsn not in words


def test_another_kind_of_heartbeat_is_refused(tq: TaskQ) -> None:
    tq.task(queue="q")(lambda: None)
    with pytest.raises(ConfigError, match="heartbeat must be thread or process, it is 'greenlet'"):
        Worker(tq, heartbeat="greenlet")  # type: ignore[typeddict-item]
