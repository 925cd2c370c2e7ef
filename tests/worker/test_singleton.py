"""At most one worker of a name at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from kit.contract import Contract
from kit.outage import Outages
from kit.workers import Gate, WorkerThread
from taskq_sync import ConfigError, InvalidInput, JobContext, TaskQ
from taskq_sync.worker import Worker
from taskq_sync.worker.events import JobsClaimed, SingletonLost, SingletonTaken, StateChanged

Work = Callable[..., WorkerThread]


def reason(worker: WorkerThread) -> str:
    return next(each.reason for each in worker.of(StateChanged) if each.after in ("stopping", "stopped"))


@pytest.fixture
def held(tq: TaskQ, gate: Gate) -> None:
    """A task that holds its worker at the gate, and a job of it."""

    @tq.task
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    handler.enqueue()


def test_a_second_one_of_the_name_has_nothing_to_do(
    held: None, work: Work, drain: Work, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    first = work(singleton="nightly")
    gate.wait()
    with caplog.at_level(logging.INFO, "taskq_sync.worker"):
        second = drain(singleton="nightly")
    assert second.code == 0
    assert reason(second) == "already running"
    assert [each.singleton for each in second.of(SingletonTaken)] == ["nightly"]
    assert not second.of(JobsClaimed)
    said = [record for record in caplog.records if "singleton nightly" in record.getMessage()]
    assert [record.levelname for record in said] == ["INFO"]
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    gate.open.set()
    assert first.stop() == 0


def test_another_name_runs_beside_it(held: None, work: Work, drain: Work, gate: Gate) -> None:
    work(singleton="nightly")
    gate.wait()
    assert reason(drain(singleton="hourly")) == "nothing is due"
    assert reason(drain()) == "nothing is due"


def test_the_name_is_free_after_the_end(tq: TaskQ, drain: Work) -> None:
    @tq.task
    def handler() -> None: ...

    assert [reason(drain(singleton="nightly")) for _ in range(2)] == ["nothing is due"] * 2


def test_a_worker_that_loses_the_lock_ends_softly_and_says_so(
    held: None, work: Work, gate: Gate, outages: Outages, sql: Contract
) -> None:
    worker = work(singleton="nightly")
    gate.wait()
    assert outages.cut("singleton") == 1
    lost = worker.wait_for(SingletonLost)
    assert lost.singleton == "nightly"
    worker.wait_for(StateChanged, lambda event: event.after == "stopping")
    assert reason(worker) == "the lock of singleton nightly was lost"
    gate.open.set()
    assert worker.join() == 0
    assert sql.value("select count(*) from taskq.finished where status = 'succeeded'") == 1


def test_a_database_that_is_away_is_69(tq: TaskQ, outages: Outages) -> None:
    @tq.task
    def handler() -> None: ...

    worker = WorkerThread(tq, singleton="nightly")
    with outages.away():
        assert worker.join() == 69


class TestBehindAPooler:
    def test_is_refused_without_a_direct_connection(self, dsn: str) -> None:
        with (
            TaskQ(dsn, pooled=True) as tq,
            pytest.raises(ConfigError, match=r"'nightly' is a lock that a pooler .* set listen_dsn"),
        ):
            Worker(tq, queues=["q"], singleton="nightly")

    def test_takes_the_direct_connection(self, dsn: str) -> None:
        with TaskQ(dsn, pooled=True, listen_dsn=dsn) as tq:
            worker = WorkerThread(tq, queues=["q"], burst=True, singleton="nightly")
            assert worker.join() == 0
            assert reason(worker) == "nothing is due"


@pytest.mark.parametrize("name", ["", "n" * 256])
def test_a_name_that_cannot_be_is_refused(tq: TaskQ, name: str) -> None:
    with pytest.raises(InvalidInput, match="singleton"):
        Worker(tq, queues=["q"], singleton=name)
