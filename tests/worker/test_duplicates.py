"""Handlers that enqueue what is already there."""

# Scenario B33.

from __future__ import annotations

from collections.abc import Callable

from kit.contract import Contract
from kit.workers import WorkerThread
from taskq_sync import TaskQ


def test_an_expected_duplicate_is_no_error_of_the_handler_and_none_of_the_worker(
    tq: TaskQ, drain: Callable[..., WorkerThread], sql: Contract
) -> None:
    """A tick enqueues a job that still waits, as its queue is paused."""

    @tq.task(queue="nightly", name="nightly", unique=True, unique_scope="waiting")
    def nightly() -> None: ...

    @tq.task(queue="q", name="tick")
    def tick(number: int) -> str:
        return nightly.enqueue().status

    sql.pause_queue(queue="nightly", actor="test")
    ticks = tq.enqueue_many(tick.job(number=number) for number in range(30))

    assert drain().code == 0

    results = [tq.get(each).result for each in ticks]
    assert sorted(map(str, results)) == ["created"] + ["existed"] * 29
    assert sql.value("select count(*) from taskq.jobs where task = 'nightly'") == 1


def test_a_follower_of_a_job_that_runs_is_not_lost(tq: TaskQ, drain: Callable[..., WorkerThread]) -> None:
    """What changes while the job runs is seen by the job that its own handler enqueues."""
    seen: list[int] = []

    @tq.task(queue="q", name="refresh", unique=True, unique_scope="waiting")
    def refresh() -> None:
        seen.append(len(seen))
        if len(seen) < 3:
            assert refresh.enqueue().created
            assert refresh.enqueue().status == "existed"

    refresh.enqueue()

    assert drain().code == 0
    assert len(seen) == 3
