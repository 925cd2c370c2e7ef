"""`burst`: run what is due, then end."""

from __future__ import annotations

from collections.abc import Callable

from kit.contract import Contract
from kit.waiting import eventually
from kit.workers import WorkerThread
from taskq_sync import JobContext, TaskQ
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
