"""How a worker ends, and what it leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kit.contract import Contract
from kit.waiting import PATIENCE, eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.errors import JobCancelled
from taskq_sync.worker import link
from taskq_sync.worker.events import (
    HandlersStuck,
    PartDied,
    StateChanged,
    StillWaiting,
    VerdictRefused,
)

Work = Callable[..., WorkerThread]


def presence(sql: Contract) -> list[str]:
    return [row["state"] for row in sql.rows("select info ->> 'state' as state from taskq.workers")]


def test_waits_for_its_handlers_and_says_for_whom(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task(queue="q")
    def handler(ctx: JobContext) -> str:
        gate.pass_through(ctx)
        return "done"

    job_id = handler.enqueue().job_id
    worker = work(slots=2)
    ctx = gate.wait()
    worker.worker.stop()
    waiting = worker.wait_for(StillWaiting)
    assert [job.job_id for job in waiting.jobs] == [job_id]
    assert waiting.seconds is None
    assert not ctx.should_stop
    eventually(lambda: presence(sql) == ["stopping"], "the stop is announced")
    gate.open.set()
    assert worker.join() == 0
    assert sql.job(job_id)["status"] == "succeeded"
    assert presence(sql) == []


def test_beats_and_cancels_go_on_while_it_waits(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task(lease=0.6)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work()
    ctx = gate.wait()
    worker.worker.stop()
    worker.wait_for(StillWaiting)
    expires = sql.job(job_id)["lease_expires_at"]
    eventually(lambda: sql.job(job_id)["lease_expires_at"] > expires, "the lease is renewed")
    sql.cancel_job(job_id=job_id, actor="test", reason="stop")
    eventually(lambda: ctx.cancelled, "the cancel arrives")


def test_hands_back_what_waits_for_a_slot(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task
    def handler(ctx: JobContext, number: int) -> None:
        if number == 400:
            gate.pass_through(ctx)

    results = tq.enqueue_many(handler.job(number=number) for number in range(800))
    worker = work(slots=1)
    gate.wait()
    worker.worker.stop()
    worker.wait_for(StillWaiting)
    eventually(
        lambda: sql.value("select count(*) from taskq.running") == 1,
        "all but the running job are handed back",
    )
    gate.open.set()
    assert worker.join() == 0
    assert sql.value("select count(*) from taskq.ready") == 800 - 401
    untouched = sql.job(results[-1].job_id)
    assert (untouched["status"], untouched["failure_count"]) == ("queued", 0)
    assert sql.value("select count(*) from taskq.attempts") == 0


def test_after_the_time_to_wait_handlers_are_told_to_end(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    """B08: handed back without cost, with the checkpoint, and free for others at once."""

    @tq.task(queue="q", concurrency_key="k")
    def handler(ctx: JobContext) -> None:
        ctx.checkpoint("half")
        gate.entered.set()
        gate.ctx = ctx
        eventually(lambda: ctx.should_stop, "the handler is told")
        ctx.raise_if_cancelled()

    job_id = handler.enqueue().job_id
    worker = work(soft_stop_timeout=0.05)
    gate.wait()
    assert worker.stop() == 0
    job = sql.job(job_id)
    assert (job["status"], job["failure_count"], job["progress"]) == ("queued", 0, "half")
    [attempt] = sql.job_history(job_id=job_id)
    assert (attempt["verb"], attempt["reason"]) == ("release", "worker_shutdown")
    sql.make_due(job_id)
    assert sql.take("q")["job_id"] == job_id


def test_handlers_that_will_not_end_are_released_by_the_last_statement(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    @tq.task(queue="q")
    def handler(ctx: JobContext) -> str:
        ctx.checkpoint("half")
        gate.pass_through(ctx)
        return "too late"

    job_id = handler.enqueue().job_id
    worker = work(soft_stop_timeout=0.05)
    gate.wait()
    assert worker.stop() == 3
    job = sql.job(job_id)
    assert (job["status"], job["failure_count"], job["progress"]) == ("queued", 0, "half")
    [attempt] = sql.job_history(job_id=job_id)
    assert attempt["reason"] == "worker_shutdown"
    assert 3 < (job["scheduled_at"] - attempt["ended_at"]).total_seconds() < 6
    [stuck] = worker.of(HandlersStuck)
    assert [each.job_id for each in stuck.jobs] == [job_id]
    assert "pass_through" in stuck.stacks[0]
    gate.open.set()
    eventually(lambda: not any("slot" in thread.name for thread in threading.enumerate()), "the handler ends")
    assert sql.job(job_id)["status"] == "queued"
    assert not worker.of(VerdictRefused)


def test_a_second_request_does_not_wait(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    """B70: without a limit to the waiting, the second signal is the limit."""

    @tq.task
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work()
    gate.wait()
    worker.worker.stop()
    worker.wait_for(StillWaiting)
    worker.worker.stop()
    assert worker.join() == 3
    assert sql.job(job_id)["status"] == "queued"


def test_an_idle_worker_stops_at_once(tq: TaskQ, work: Work, sql: Contract) -> None:
    @tq.task
    def handler() -> None: ...

    worker = work()
    assert worker.stop() == 0
    assert [event.after for event in worker.of(StateChanged)] == ["running", "stopping", "stopped"]
    assert sql.value("select count(*) from taskq.sleepers") == 0


def test_an_operator_can_ask_an_idle_worker_to_stop(tq: TaskQ, work: Work, sql: Contract) -> None:
    @tq.task
    def handler() -> None: ...

    worker = work(announce_every=0.05)
    sql.run("update taskq.workers set stop_requested = true")
    assert worker.join() == 0


def test_stopping_before_the_start_ends_it_right_away(tq: TaskQ) -> None:
    @tq.task
    def handler() -> None: ...

    worker = WorkerThread(tq)
    worker.worker.stop()
    assert worker.join() == 0


def test_a_part_that_dies_stops_the_worker_with_an_error(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    """B15, B71: never alive without serving."""

    @tq.task
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work()
    gate.wait()

    def broken(*args: object) -> None:
        raise KeyError("a defect")

    worker.worker._parts.heartbeat._beat = broken  # type: ignore[method-assign]
    worker.worker._parts.attempts.held()[0].beat_at = 0.0
    worker.worker._parts.attempts.beat_wanted.set()
    assert worker.join() == 1
    [died] = worker.of(PartDied)
    assert died.part.endswith("-heartbeat")
    assert sql.job(job_id)["status"] == "queued"
    assert presence(sql) == []


def test_verdicts_are_delivered_before_the_end(tq: TaskQ, work: Work, sql: Contract) -> None:
    started = threading.Event()

    @tq.task
    def handler(number: int) -> int:
        started.set()
        return number

    results = tq.enqueue_many(handler.job(number=number) for number in range(300))
    worker = work(slots=8)
    assert started.wait(PATIENCE)
    assert worker.stop() == 0
    assert sql.value("select count(*) from taskq.running") == 0
    done = [tq.get(result) for result in results]
    assert {job.status for job in done} <= {"succeeded", "queued"}


def test_a_handler_needs_one_call_to_hand_its_job_back(tq: TaskQ, work: Work, gate: Gate) -> None:
    seen: list[BaseException] = []

    @tq.task
    def handler(ctx: JobContext) -> None:
        gate.ctx = ctx
        gate.entered.set()
        eventually(lambda: ctx.should_stop, "the handler is told")
        try:
            ctx.raise_if_cancelled()
        except JobCancelled as error:
            seen.append(error)
            raise

    handler.enqueue()
    worker = work(soft_stop_timeout=0.01)
    gate.wait()
    assert worker.stop() == 0
    assert len(seen) == 1


def test_a_schema_that_stays_away_ends_the_worker_with_an_error(
    tq: TaskQ, work: Work, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B71: not alive for ever without serving."""
    monkeypatch.setattr(link, "PATIENCE", 0.3)

    @tq.task
    def handler() -> None: ...

    worker = work(poll_interval=0.05)
    sql.run("alter schema taskq rename to gone")
    try:
        assert worker.join() == 1
    finally:
        sql.run("alter schema gone rename to taskq")
    [died] = worker.of(PartDied)
    assert "taskq-sync migrate" in str(died.error)
