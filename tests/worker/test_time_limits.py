"""Time limits of handlers in threads: flags, interrupts, and threads that will not end."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from kit.contract import Contract
from kit.waiting import PATIENCE, eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.errors import JobCancelled, JobTimeout, LeaseLost
from taskq_sync.worker.events import HandlersStuck, HandlerStuck, JobFailed, LeaseWasLost, PartDied

Drain = Callable[..., WorkerThread]
Work = Callable[..., WorkerThread]


def spin() -> None:
    """Run until somebody interrupts."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pass


def slots_of(worker: WorkerThread) -> list[str]:
    """The slots that run, by the names of their threads."""
    name = worker.worker.worker_id
    return [each.name for each in threading.enumerate() if name in each.name and "-slot-" in each.name]


def test_a_handler_that_may_be_interrupted_is_interrupted(tq: TaskQ, drain: Drain) -> None:
    @tq.task(name="endless", interrupt=True, timeout=0.1, max_attempts=1)
    def handler() -> None:
        spin()

    result = handler.enqueue()
    worker = drain(stop_grace=20)
    assert worker.code == 0
    error = tq.get(result).error
    assert error is not None
    assert error.startswith("taskq_sync.errors.JobTimeout: task endless ran longer than 0.1 s\n")
    assert "in spin" in error
    assert len(worker.of(JobFailed)) == 1


def test_a_handler_that_may_not_is_asked_only(tq: TaskQ, drain: Drain) -> None:
    seen: list[bool] = []

    @tq.task(timeout=0.1)
    def handler(ctx: JobContext) -> str:
        eventually(lambda: ctx.should_stop, "it is asked")
        for _ in range(10):
            seen.append(ctx.should_stop)
            time.sleep(0.05)
        return "went on"

    result = handler.enqueue()
    drain(stop_grace=20)
    assert tq.get(result).result == "went on"
    assert seen == [True] * 10


def test_a_handler_may_catch_its_timeout(tq: TaskQ, drain: Drain) -> None:
    @tq.task(interrupt=True, timeout=0.1)
    def handler() -> str:
        try:
            spin()
        except JobTimeout as error:
            return f"caught: {error.message}"
        return "never interrupted"

    result = handler.enqueue()
    drain(stop_grace=20)
    assert str(tq.get(result).result).startswith("caught: task ")


def test_policies_know_the_timeout(tq: TaskQ, drain: Drain) -> None:
    @tq.task(interrupt=True, timeout=0.1, give_up_on=JobTimeout)
    def handler() -> None:
        spin()

    result = handler.enqueue()
    drain(stop_grace=20)
    assert tq.get(result).outcome == "non_retryable"


@pytest.mark.parametrize("interrupt", [False, True])
def test_a_cancel_interrupts(interrupt: bool, tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    errors: list[BaseException] = []

    @tq.task(queue="q", interrupt=interrupt, lease=0.6)
    def handler() -> None:
        gate.entered.set()
        try:
            while not gate.open.wait(0.01):
                pass
        except BaseException as error:
            errors.append(error)
            raise

    job_id = handler.enqueue().job_id
    work()
    assert gate.entered.wait(PATIENCE)
    sql.cancel_job(job_id=job_id)
    if interrupt:
        eventually(lambda: sql.job(job_id)["status"] == "cancelled", "the job is cancelled")
        assert [type(error).__name__ for error in errors] == ["JobCancelled"]
        assert isinstance(errors[0], JobCancelled)
    else:
        eventually(lambda: sql.job(job_id)["cancel_requested_at"], "the cancel is there")
        assert sql.job(job_id)["status"] == "running"


def test_a_lost_lease_interrupts(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    errors: list[BaseException] = []

    @tq.task(queue="q", interrupt=True, lease=0.6)
    def handler(ctx: JobContext) -> None:
        gate.entered.set()
        if ctx.attempt == 1:
            try:
                spin()
            except BaseException as error:
                errors.append(error)
                raise

    job_id = handler.enqueue().job_id
    worker = work(take_back_every=60)
    assert gate.entered.wait(PATIENCE)
    with sql.conn.transaction():
        sql.run_out(job_id)
        sql.take_back()
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is run again")
    eventually(lambda: errors, "the first handler is interrupted")
    assert isinstance(errors[0], LeaseLost)
    assert len(worker.of(LeaseWasLost)) == 1


def test_a_stop_that_does_not_wait_interrupts_and_releases(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    @tq.task(queue="q", interrupt=True)
    def handler(ctx: JobContext) -> None:
        ctx.checkpoint("so far")
        gate.entered.set()
        spin()

    job_id = handler.enqueue().job_id
    worker = work(soft_stop_timeout=0)
    assert gate.entered.wait(PATIENCE)
    assert worker.stop() == 0
    assert [attempt["reason"] for attempt in sql.job_history(job_id=job_id)] == ["worker_shutdown"]
    assert sql.job(job_id)["progress"] == "so far"
    assert not worker.of(HandlersStuck)


def test_a_transaction_is_not_broken_off_in_our_code(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    """What is interrupted in the handler's own block rolls back, and the connection is good for the next one."""
    sql.run("create table made (id bigint)")

    @tq.task(name="in_transaction", interrupt=True, timeout=0.1, max_attempts=1)
    def in_transaction(ctx: JobContext, hang: bool) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into made values (%s)", (ctx.job.job_id,))
            if hang:
                spin()

    results = [in_transaction.enqueue(hang=number % 2 == 0) for number in range(6)]
    drain(slots=1, stop_grace=20, transactions=1)
    outcomes = [tq.get(result).outcome for result in results]
    assert outcomes == ["retry_exhausted", "success"] * 3
    made = [row["id"] for row in sql.rows("select id from made order by id")]
    assert made == [result.job_id for result in results[1::2]]
    sql.run("drop table made")


def test_a_thread_that_will_not_end_is_replaced(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task(name="stuck", queue="q", timeout=0.1, lease=0.6)
    def stuck() -> str:
        assert gate.open.wait(PATIENCE)
        return "after all"

    @tq.task(name="quick", queue="q")
    def quick() -> int:
        return 1

    job_id = stuck.enqueue().job_id
    worker = work(slots=1, stop_grace=0.1, max_stuck=1)
    event = worker.wait_for(HandlerStuck)
    assert (event.job.job_id, event.stuck) == (job_id, 1)
    assert "gate.open.wait(PATIENCE)" in event.stack
    others = [quick.enqueue().job_id for _ in range(20)]
    eventually(lambda: all(sql.job(each)["status"] == "succeeded" for each in others), "the others run")
    expires = sql.job(job_id)["lease_expires_at"]
    eventually(lambda: sql.job(job_id)["lease_expires_at"] > expires, "the stuck job is beaten")
    assert len(slots_of(worker)) == 2
    gate.open.set()
    eventually(lambda: sql.job(job_id)["result"] == "after all", "its verdict counts")
    eventually(lambda: len(slots_of(worker)) == 1, "the thread that was given up ends")
    later = quick.enqueue().job_id
    eventually(lambda: sql.job(later)["status"] == "succeeded", "there is a slot as before")
    assert worker.stop() == 0


def test_a_stop_does_not_wait_for_stuck_threads(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    @tq.task(queue="q", timeout=0.1)
    def stuck() -> None:
        assert gate.open.wait(PATIENCE)

    job_id = stuck.enqueue().job_id
    worker = work(slots=2, stop_grace=0.1)
    worker.wait_for(HandlerStuck)
    assert worker.stop() == 3
    assert [attempt["reason"] for attempt in sql.job_history(job_id=job_id)] == ["worker_shutdown"]
    gate.open.set()
    eventually(lambda: not slots_of(worker), "the thread ends")


def test_too_many_stuck_threads_end_the_worker(tq: TaskQ, work: Work, gate: Gate, sql: Contract) -> None:
    """The other jobs are waited for, and no more are taken; whoever watches the worker sees that it was no good."""
    healthy, done = threading.Event(), threading.Event()

    @tq.task(name="stuck", queue="q", timeout=0.1, priority=1)
    def stuck() -> None:
        assert gate.open.wait(PATIENCE)

    @tq.task(name="healthy", queue="q", priority=2)
    def healthy_one() -> None:
        healthy.set()
        assert done.wait(PATIENCE)

    fine = healthy_one.enqueue().job_id
    for _ in range(2):
        stuck.enqueue()
    worker = work(slots=3, stop_grace=0.1, max_stuck=1)
    assert healthy.wait(PATIENCE)
    worker.wait_for(HandlerStuck, lambda event: event.stuck == 2)
    # Not only that it begins to stop: a claim may be under way, whose jobs are given back.
    eventually(lambda: worker.worker._parts.claimer.ended, "it takes no more jobs")
    late = stuck.enqueue().job_id
    done.set()
    assert worker.join() == 3
    assert sql.job(fine)["status"] == "succeeded"
    assert sql.job(late)["attempt_count"] == 0
    gate.open.set()
    eventually(lambda: not slots_of(worker), "the threads end")


def test_threads_serve_on_whatever_time_limits_do_to_them(
    tq: TaskQ, work: Work, sql: Contract, gate: Gate
) -> None:
    """B67: each handler is recorded once, as timed out or as it ended; four threads serve afterwards."""
    limit = 0.2
    silent, peer = socket.socketpair()
    silent.settimeout(5 * limit)

    @tq.task(name="sleep", queue="q", timeout=limit, interrupt=True, max_attempts=1)
    def sleep() -> None:
        time.sleep(5 * limit)

    @tq.task(name="receive", queue="q", timeout=limit, interrupt=True, max_attempts=1)
    def receive() -> None:
        silent.recv(1)

    @tq.task(name="in_finally", queue="q", timeout=limit, interrupt=True, max_attempts=1)
    def in_finally() -> None:
        try:
            time.sleep(5 * limit)
        finally:
            raise KeyError("instead")

    @tq.task(name="swallow", queue="q", timeout=limit, interrupt=True, max_attempts=1)
    def swallow() -> str:
        try:
            spin()
        except BaseException:
            return "swallowed"
        return "not interrupted"

    jobs = {
        name: [task.enqueue().job_id for _ in range(4)]
        for name, task in (
            ("sleep", sleep),
            ("receive", receive),
            ("in_finally", in_finally),
            ("swallow", swallow),
        )
    }
    worker = work(slots=4, stop_grace=0.3)
    everyone = [job_id for ids in jobs.values() for job_id in ids]
    eventually(lambda: all(sql.job(each)["finished_at"] for each in everyone), "all end")

    def errors(name: str) -> Counter[str]:
        return Counter((sql.job(each)["error"] or "none").partition(":")[0] for each in jobs[name])

    assert errors("sleep") == {"taskq_sync.errors.JobTimeout": 4}
    assert set(errors("receive")) <= {"taskq_sync.errors.JobTimeout", "TimeoutError"}
    assert errors("in_finally") == {"KeyError": 4}
    assert [sql.job(each)["result"] for each in jobs["swallow"]] == ["swallowed"] * 4
    assert {len(sql.job_history(job_id=each)) for each in everyone} == {1}
    eventually(lambda: len(slots_of(worker)) == 4, "four threads are left")

    @tq.task(name="meet", queue="q")
    def meet() -> None:
        barrier.wait(PATIENCE)

    barrier = threading.Barrier(4)
    meetings = [meet.enqueue().job_id for _ in range(4)]
    eventually(lambda: {sql.job(each)["status"] for each in meetings} == {"succeeded"}, "four run at a time")
    assert worker.stop() == 0
    assert not worker.of(PartDied)
    silent.close()
    peer.close()


def test_handlers_that_end_at_their_limit_are_recorded_once(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    """B67: 500 rounds of a handler that ends at the moment when it is interrupted."""
    limit = 0.02

    @tq.task(name="at_the_limit", timeout=limit, interrupt=True, max_attempts=1)
    def at_the_limit(number: int) -> int:
        deadline = time.monotonic() + limit + (number % 21 - 10) * 1e-4
        while time.monotonic() < deadline:
            pass
        return number

    results = tq.enqueue_many(at_the_limit.job(number=number) for number in range(500))
    worker = drain(slots=4, stop_grace=20)
    assert worker.code == 0
    assert not worker.of(PartDied)
    ends = Counter((job.outcome, (job.error or "").partition(":")[0]) for job in map(tq.get, results))
    assert set(ends) <= {("success", ""), ("retry_exhausted", "taskq_sync.errors.JobTimeout")}
    assert sum(ends.values()) == 500
    failures = sql.value("select sum(failure_count) from taskq.job_view")
    assert failures == sum(count for (outcome, _), count in ends.items() if outcome != "success")
