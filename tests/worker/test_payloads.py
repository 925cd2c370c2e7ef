"""Jobs that this worker cannot run: another payload than the task takes, or a task it does not know."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from kit.contract import Contract
from kit.workers import WorkerThread
from taskq_sync import TaskQ
from taskq_sync.worker.events import PayloadMisfit, TaskUnknown

Drain = Callable[..., WorkerThread]


@pytest.fixture
def called(tq: TaskQ) -> list[int]:
    """What the handler of the task `t` was called with."""
    calls: list[int] = []

    @tq.task(name="t", queue="q")
    def handler(number: int) -> None:
        calls.append(number)

    return calls


def age(sql: Contract, job_id: int, age: str) -> None:
    sql.run("update taskq.jobs set created_at = created_at - %s::interval where id = %s", age, job_id)


@pytest.mark.parametrize("payload", [{}, {"number": "7"}, {"number": 1, "odd": 2}, {"nummer": 1}])
def test_a_payload_that_does_not_fit_a_young_job_is_left_to_newer_workers(
    called: list[int], drain: Drain, sql: Contract, payload: dict[str, object]
) -> None:
    job_id = sql.new_job(payload=payload)
    assert drain().code == 0
    job = sql.job(job_id)
    assert (job["status"], job["failure_count"]) == ("queued", 0)
    assert timedelta(seconds=55) < job["scheduled_at"] - job["created_at"] < timedelta(seconds=75)
    [attempt] = sql.job_history(job_id=job_id)
    assert attempt["reason"].startswith("invalid_payload: ")
    assert called == []


def test_a_payload_that_does_not_fit_is_told_once_for_each_task(
    called: list[int], drain: Drain, sql: Contract, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        sql.new_job(payload={"number": "7"})
    worker = drain()
    assert [event.grace for event in worker.of(PayloadMisfit)] == [600.0] * 3
    [line] = [each for each in caplog.messages if "does not fit" in each]
    assert "expected int, got str at $.number. It is put back for 1 min" in line
    assert line.endswith("a job older than 10 min (payload_grace) fails")


def test_a_payload_that_does_not_fit_an_old_job_ends_it(
    called: list[int], drain: Drain, sql: Contract
) -> None:
    job_id = sql.new_job(payload={"number": "seven"})
    age(sql, job_id, "11 min")
    assert drain().code == 0
    job = sql.job(job_id)
    assert (job["status"], job["outcome"]) == ("failed", "non_retryable")
    assert job["error"].startswith("invalid_payload: ")
    assert "$.number" in job["error"]
    assert called == []


def test_the_task_says_how_long_a_payload_is_left_to_newer_workers(
    tq: TaskQ, drain: Drain, sql: Contract
) -> None:
    @tq.task(name="t", queue="q", payload_grace=3600)
    def handler(number: int) -> None: ...

    job_id = sql.new_job()
    age(sql, job_id, "11 min")
    drain()
    assert sql.job(job_id)["status"] == "queued"


def test_an_unknown_task_is_released_with_a_growing_delay(
    called: list[int], drain: Drain, sql: Contract
) -> None:
    """B09: nobody who lacks the task decides what becomes of the job."""
    job_id = sql.new_job(task="nope")
    delays: list[float] = []
    for _ in range(7):
        drain()
        job = sql.job(job_id)
        assert (job["status"], job["failure_count"]) == ("queued", 0)
        delays.append((job["scheduled_at"] - sql.value("select taskq.clock()")).total_seconds())
        sql.make_due(job_id)
    assert 20 < delays[0] < 40
    assert delays[:5] == sorted(delays[:5])
    assert max(delays) <= 600 * 1.15


def test_an_unknown_task_is_told_once_for_each_name(
    called: list[int], drain: Drain, sql: Contract, caplog: pytest.LogCaptureFixture
) -> None:
    """B09: who starts a worker without its module reads why nothing happens."""
    for task in ["nope"] * 20 + ["never", "t"]:
        sql.new_job(task=task, payload={"number": 1})
    worker = drain()
    assert len(worker.of(TaskUnknown)) == 21
    told = [record.getMessage() for record in caplog.records if "no task" in record.getMessage()]
    assert sorted(line.split()[2] for line in told) == ["'never'", "'nope'"]
    [line] = [line for line in told if "'nope'" in line]
    [seconds] = re.findall(r"is released for (\d+) s", line)
    assert 20 < int(seconds) < 40
    assert called == [1]


def test_an_alias_finds_the_task(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    seen: list[int] = []

    @tq.task(name="new", queue="q", aliases=["old"])
    def handler(number: int) -> None:
        seen.append(number)

    job_id = sql.new_job(task="old", payload={"number": 3})
    drain()
    assert sql.job(job_id)["status"] == "succeeded"
    assert seen == [3]


def test_a_job_enqueued_from_sql_is_run(called: list[int], drain: Drain, sql: Contract) -> None:
    job_id = sql.new_job(payload={"number": 3})
    drain()
    assert sql.job(job_id)["status"] == "succeeded"
    assert called == [3]
