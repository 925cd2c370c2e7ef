"""Jobs with unique keys while workers run: duplicates, followers, producers that cross each other."""

# Scenarios B30, B31, B33.

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kit.contract import Contract
from kit.waiting import PATIENCE, eventually
from kit.workers import WorkerThread
from taskq_sync import JobContext, TaskQ


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

    refresh.enqueue()

    assert drain().code == 0
    assert len(seen) == 3


def test_a_retry_and_the_follower_that_has_its_key_are_both_run(
    tq: TaskQ, drain: Callable[..., WorkerThread], sql: Contract
) -> None:
    """B31: nothing clashes at the claim, and nobody else is held up."""

    @tq.task(queue="q", name="once", unique_scope="waiting", unique_key="k", backoff=0)
    def once(ctx: JobContext, number: int) -> None:
        if number == 1 and ctx.attempt == 1:
            assert once.enqueue(number=2).created
            raise ConnectionError("after a follower has taken the key")

    @tq.task(queue="q", name="other")
    def other(number: int) -> None: ...

    first = once.enqueue(number=1)
    tq.enqueue_many(other.job(number=number) for number in range(5))

    assert drain().code == 0

    assert tq.get(first).attempt_count == 2
    assert sql.rows("select status, count(*) as n from taskq.job_view group by 1") == [
        {"status": "succeeded", "n": 7}
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unique_mode": "replace"},
        {"unique_scope": "waiting"},
        {"unique_scope": "waiting", "unique_mode": "replace"},
        {"unique_for": 0.05},
        {"unique_for": 0.05, "unique_mode": "replace"},
    ],
    ids=str,
)
def test_producers_with_the_same_keys_crosswise_and_workers_do_not_disturb_each_other(
    tq: TaskQ, work: Callable[..., WorkerThread], sql: Contract, options: dict[str, Any]
) -> None:
    """B30."""
    overlaps: list[int] = []
    running: set[int] = set()
    lock = threading.Lock()

    @tq.task(queue="q", name="quick")
    def quick(key: int) -> None:
        with lock:
            overlaps.extend({key} & running)
            running.add(key)
        time.sleep(0)  # let another slot look
        with lock:
            running.discard(key)

    def produce(keys: range) -> int:
        keyed = [quick.using(unique_key=str(key), **options).job(key=key) for key in keys]
        answers = [answer for _ in range(10) for answer in tq.enqueue_many(keyed, timeout=PATIENCE)]
        return sum(answer.created for answer in answers)

    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    before = sql.value(deadlocks)
    workers = [work(slots=2) for _ in range(4)]
    with ThreadPoolExecutor(2) as threads:
        created = sum(threads.map(produce, (range(50), range(49, -1, -1))))

    eventually(lambda: sql.value("select count(*) from taskq.finished") == created, "all jobs are run")
    assert [worker.stop() for worker in workers] == [0] * 4
    if options.get("unique_scope") != "waiting":  # else a follower may run beside its forerunner
        assert not overlaps
    assert sql.value("select count(*) from taskq.attempts") == 0
    tq.close()  # so that its sessions have reported
    assert sql.value(deadlocks) == before
