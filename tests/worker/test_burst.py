"""`burst`: run what is due, then end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.contract import Contract
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import ConfigError, JobContext, Snooze, TaskQ
from taskq_sync.worker import Worker
from taskq_sync.worker.events import JobEnded, JobsClaimed

Drain = Callable[..., WorkerThread]


def test_an_empty_queue_ends_it_at_once(tq: TaskQ, drain: Drain) -> None:
    @tq.task
    def handler() -> None: ...

    worker = drain()
    assert worker.code == 0
    assert [event.count for event in worker.of(JobsClaimed)] == [0]


def test_runs_everything_that_is_due(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task
    def handler(number: int) -> None: ...

    tq.enqueue_many(handler.job(number=number) for number in range(3000))
    worker = drain(slots=8)
    assert worker.code == 0
    assert sql.value("select count(*) from taskq.finished where status = 'succeeded'") == 3000
    assert len(worker.of(JobEnded)) == 3000
    # a claim per slot and job would be 3000 / 8
    assert len(worker.of(JobsClaimed)) < 60


def test_runs_what_its_jobs_enqueue(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task(name="t")
    def handler(depth: int) -> None:
        if depth:
            handler.enqueue(depth=depth - 1)

    handler.enqueue(depth=10)
    drain()
    assert sql.value("select count(*) from taskq.finished") == 11


def test_does_not_end_before_a_running_job_that_may_enqueue_more(tq: TaskQ, sql: Contract) -> None:
    worker = WorkerThread(tq, slots=2, burst=True, queues=["default"])

    @tq.task(name="t")
    def handler(depth: int) -> None:
        if depth:
            eventually(
                lambda: 0 in [event.count for event in worker.of(JobsClaimed)], "it has looked in vain"
            )
            handler.enqueue(depth=depth - 1)

    handler.enqueue(depth=1)
    assert worker.join() == 0
    assert sql.value("select count(*) from taskq.finished") == 2


def test_does_not_wait_for_what_is_due_later(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task
    def handler() -> None: ...

    handler.using(delay=3600).enqueue()
    assert drain().code == 0
    assert sql.value("select count(*) from taskq.ready") == 1


def test_does_not_wait_for_a_paused_queue(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task(queue="q")
    def handler() -> None: ...

    handler.enqueue()
    sql.pause_queue(queue="q", actor="test", reason="test")
    assert drain().code == 0
    assert sql.value("select count(*) from taskq.ready") == 1


def test_serves_all_its_queues(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task(queue="a")
    def one() -> None: ...

    @tq.task(queue="b")
    def two() -> None: ...

    for _ in range(20):
        one.enqueue()
        two.enqueue()
    drain()
    assert sql.value("select count(*) from taskq.finished") == 40


def test_leaves_other_queues_alone(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task(queue="a")
    def one() -> None: ...

    one.enqueue()
    drain(queues=["b"])
    assert sql.value("select count(*) from taskq.ready") == 1


def test_ends_after_max_jobs(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task
    def handler(number: int) -> None: ...

    tq.enqueue_many(handler.job(number=number) for number in range(500))
    assert drain(max_jobs=120).code == 0
    assert sql.value("select count(*) from taskq.finished") == 120
    assert sql.value("select count(*) from taskq.running") == 0


def test_ends_after_max_seconds(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task(name="t", backoff=0, max_attempts=100_000)
    def handler(ctx: JobContext) -> None:
        handler.enqueue()

    handler.enqueue()
    assert drain(max_seconds=0.3).code == 0
    assert sql.value("select count(*) from taskq.running") == 0
    assert sql.value("select count(*) from taskq.finished") > 0


def test_a_failure_that_is_due_at_once_is_tried_again(tq: TaskQ, drain: Drain) -> None:
    @tq.task(backoff=0, max_attempts=3)
    def handler() -> None:
        raise ValueError("bad")

    job_id = handler.enqueue().job_id
    drain()
    assert tq.get(job_id).attempt_count == 3


class TestWaitingForDelayed:
    def test_runs_retries_snoozes_and_delayed_jobs_that_are_due_soon(self, tq: TaskQ, drain: Drain) -> None:
        @tq.task(name="flaky", backoff=0.3)
        def flaky(ctx: JobContext) -> None:
            if ctx.job.failure_count == 0:
                raise ValueError("the first time")

        @tq.task(name="sleepy")
        def sleepy(ctx: JobContext) -> Snooze | None:
            return None if ctx.job.progress else Snooze(0.3, progress=1)

        @tq.task(name="plain")
        def plain() -> None: ...

        jobs = [flaky.enqueue(), sleepy.enqueue(), plain.using(delay=0.4).enqueue()]
        assert drain(wait_for_delayed=60).code == 0
        assert [tq.get(job).status for job in jobs] == ["succeeded"] * 3

    def test_does_not_wait_for_what_is_due_later_than_that(self, tq: TaskQ, drain: Drain) -> None:
        @tq.task
        def handler() -> None: ...

        soon, later = (handler.using(delay=seconds).enqueue() for seconds in (0.3, 3600))
        assert drain(wait_for_delayed=60).code == 0
        assert [tq.get(job).status for job in (soon, later)] == ["succeeded", "queued"]

    def test_counts_anew_whenever_nothing_is_due(self, tq: TaskQ, drain: Drain) -> None:
        """Ten pauses that are each shorter than the limit are longer together."""
        pauses: list[int] = []

        @tq.task
        def handler() -> Snooze | None:
            pauses.append(1)
            return Snooze(0.2) if len(pauses) < 10 else None

        job = handler.enqueue()
        assert drain(wait_for_delayed=1.5).code == 0
        assert tq.get(job).status == "succeeded"

    def test_ends_at_max_seconds_all_the_same(self, tq: TaskQ, drain: Drain) -> None:
        @tq.task
        def handler() -> None: ...

        handler.using(delay=3000).enqueue()
        worker = drain(wait_for_delayed=3600, max_seconds=0.3)
        assert worker.code == 0
        assert worker.worker.summary.facts()["reason"] == "0.3 s have passed"

    def test_is_for_bursts(self, tq: TaskQ) -> None:
        with pytest.raises(ConfigError, match="wait_for_delayed says how long a burst waits"):
            Worker(tq, queues=["q"], wait_for_delayed=1)


def test_a_thread_that_is_stuck_is_not_waited_for(tq: TaskQ, drain: Drain, gate: Gate, sql: Contract) -> None:
    @tq.task(timeout=0.1)
    def stuck(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    @tq.task
    def other() -> None: ...

    job_id = stuck.enqueue().job_id
    other.enqueue()
    worker = drain(stop_grace=0.1)
    assert worker.code == 3
    assert worker.worker.summary.facts()["reason"] == "nothing is due"
    assert sql.job(job_id)["status"] == "queued"


def test_a_handler_is_waited_for_as_long_as_a_soft_stop_may_take(
    tq: TaskQ, drain: Drain, gate: Gate, sql: Contract
) -> None:
    @tq.task
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    assert drain(max_seconds=0.5, soft_stop_timeout=0.2).code == 3
    assert sql.job(job_id)["status"] == "queued"
