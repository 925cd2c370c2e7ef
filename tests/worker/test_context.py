"""What a handler can ask of its context, and what its checkpoints become."""

# Scenario B59.

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.contract import Contract
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, PayloadError, Snooze, TaskQ
from taskq_sync.errors import JobCancelled, JobTimeout, LeaseLost
from taskq_sync.worker.events import LeaseWasLost

Drain = Callable[..., WorkerThread]
Work = Callable[..., WorkerThread]


def test_a_checkpoint_is_there_in_the_next_attempt(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    seen: list[object] = []

    @tq.task(backoff=0)
    def handler(ctx: JobContext) -> None:
        seen.append(ctx.progress)
        if ctx.attempt < 3:
            ctx.checkpoint({"page": ctx.attempt})
            assert ctx.progress == {"page": ctx.attempt}
            raise ValueError("not yet")

    job_id = handler.enqueue().job_id
    drain()
    assert seen == [None, {"page": 1}, {"page": 2}]
    assert tq.get(job_id).status == "succeeded"


def test_a_checkpoint_travels_with_a_snooze_that_names_none(tq: TaskQ, drain: Drain) -> None:
    @tq.task
    def handler(ctx: JobContext) -> Snooze:
        ctx.checkpoint([1, 2])
        return Snooze(3600)

    job_id = handler.enqueue().job_id
    drain()
    assert tq.get(job_id).progress == [1, 2]


def test_a_checkpoint_travels_with_the_next_beat(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task(lease=1)
    def handler(ctx: JobContext) -> None:
        ctx.checkpoint("half")
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work()
    eventually(lambda: sql.job(job_id)["progress"] == "half", "the checkpoint is stored")
    gate.open.set()
    assert worker.stop() == 0


def test_a_flushed_checkpoint_is_stored_before_the_call_returns(
    tq: TaskQ, drain: Drain, sql: Contract
) -> None:
    stored: list[object] = []

    @tq.task
    def handler(ctx: JobContext) -> None:
        for number in range(3):
            ctx.checkpoint(number, flush=True)
            with tq.database.connection() as session:
                stored.append(tq.jobs.get(session, ctx.job.job_id).progress)

    handler.enqueue()
    drain()
    assert stored == [0, 1, 2]


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000_000, "x" * 2047, {1, 2}, float("nan"), "\x00"],
    ids=["1 MB", "2049", "set", "nan", "NUL"],
)
def test_a_checkpoint_that_cannot_be_stored_is_an_error_of_the_handler(
    tq: TaskQ, drain: Drain, value: object
) -> None:
    @tq.task(max_attempts=1)
    def handler(ctx: JobContext) -> None:
        ctx.checkpoint("good")
        ctx.checkpoint(value)

    job_id = handler.enqueue().job_id
    assert drain().code == 0
    job = tq.get(job_id)
    assert job.status == "failed"
    assert job.error is not None
    assert job.error.startswith("taskq_sync.errors.PayloadError: the checkpoint")
    assert job.progress == "good"


def test_a_handler_may_go_on_after_a_checkpoint_that_cannot_be_stored(tq: TaskQ, drain: Drain) -> None:
    @tq.task
    def handler(ctx: JobContext) -> None:
        with pytest.raises(PayloadError):
            ctx.checkpoint("x" * 1_000_000)

    job_id = handler.enqueue().job_id
    drain()
    assert tq.get(job_id).status == "succeeded"


def test_the_largest_checkpoint_is_stored(tq: TaskQ, drain: Drain) -> None:
    @tq.task
    def handler(ctx: JobContext) -> None:
        ctx.checkpoint(["x" * 1000, "y" * 1038], flush=True)  # 2048 bytes as PostgreSQL writes it

    job_id = handler.enqueue().job_id
    drain()
    assert tq.get(job_id).status == "succeeded"


def test_a_cancel_is_delivered_by_the_next_beat(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task(lease=1)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)
        ctx.raise_if_cancelled()

    job_id = handler.enqueue().job_id
    work()
    ctx = gate.wait()
    assert not ctx.cancelled
    sql.cancel_job(job_id=job_id, actor="test", reason="wrong address")
    eventually(lambda: ctx.cancelled and ctx.should_stop, "the handler is told")
    with pytest.raises(JobCancelled):
        ctx.raise_if_cancelled()
    gate.open.set()
    eventually(lambda: sql.job(job_id)["status"] == "cancelled", "the job is cancelled")
    assert sql.job(job_id)["reason"] == "wrong address"


def test_a_handler_that_completes_in_spite_of_a_cancel_has_completed(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    @tq.task(lease=1)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    work()
    ctx = gate.wait()
    sql.cancel_job(job_id=job_id, actor="test", reason="wrong address")
    eventually(lambda: ctx.cancelled, "the handler is told")
    gate.open.set()
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is completed")


def test_the_time_limit_of_the_task_shows_in_the_context(tq: TaskQ, drain: Drain) -> None:
    seen: list[bool] = []

    @tq.task(timeout=0.05, max_attempts=1)
    def handler(ctx: JobContext) -> None:
        seen.append(ctx.should_stop)
        eventually(lambda: ctx.deadline.expired, "the time is over")
        seen.append(ctx.should_stop)
        assert not ctx.cancelled
        ctx.raise_if_cancelled()

    job_id = handler.enqueue().job_id
    drain()
    assert seen == [False, True]
    job = tq.get(job_id)
    assert job.error is not None
    assert JobTimeout.__name__ in job.error


def test_a_handler_that_ends_after_its_time_limit_has_completed(tq: TaskQ, drain: Drain) -> None:
    @tq.task(timeout=0.01)
    def handler(ctx: JobContext) -> str:
        eventually(lambda: ctx.deadline.expired, "the time is over")
        return "done"

    job_id = handler.enqueue().job_id
    drain()
    assert tq.get(job_id).result == "done"


def test_a_task_without_limit_has_no_deadline(tq: TaskQ, drain: Drain) -> None:
    remaining: list[float | None] = []

    @tq.task
    def handler(ctx: JobContext) -> None:
        remaining.append(ctx.deadline.timeout)

    handler.enqueue()
    drain()
    assert remaining == [None]


def test_a_lost_lease_is_told_to_the_handler_and_its_verdict_does_not_count(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    """B04: the database gives the job to somebody else; only the fence decides."""

    @tq.task(queue="q", lease=1)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)
        with pytest.raises(LeaseLost):
            ctx.checkpoint(1)
        with pytest.raises(LeaseLost) as caught:
            ctx.raise_if_cancelled()
        gate.error = caught.value

    job_id = handler.enqueue().job_id
    worker = work(slots=1, queues=["q"])
    ctx = gate.wait()
    take_away(sql, job_id)
    other = sql.take("q", worker="somebody else")
    worker.wait_for(LeaseWasLost)
    assert ctx.cancelled
    gate.open.set()
    eventually(lambda: gate.error is not None, "the handler ends")
    assert worker.stop() == 0
    job = sql.job(job_id)
    assert (job["status"], job["current_attempt_id"]) == ("running", other["attempt_id"])
    [answer] = sql.complete(job_id=job_id, attempt_id=other["attempt_id"])
    assert answer["result"] == "ok"


def test_a_flush_of_a_lost_attempt_says_so(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task(queue="q", max_attempts=1)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)
        with pytest.raises(LeaseLost) as caught:
            ctx.checkpoint(1, flush=True)
        gate.error = caught.value

    job_id = handler.enqueue().job_id
    worker = work(slots=1)
    gate.wait()
    take_away(sql, job_id)
    gate.open.set()
    eventually(lambda: gate.error is not None, "the handler ends")
    assert worker.stop() == 0
    assert sql.job(job_id)["outcome"] == "retry_exhausted"


def take_away(sql: Contract, job_id: int) -> None:
    """Let the lease run out and be taken back, between two beats."""
    with sql.conn.transaction():
        sql.run_out(job_id)
        [taken] = sql.take_back(limit=10)
    assert taken["job_id"] == job_id
