"""When and what a worker claims: wake-ups, sleep, what waits for a slot and what must not."""

# Scenario B81.

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kit.contract import Connection, Contract
from kit.waiting import PATIENCE, eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.worker import prefetch, rest, waiting
from taskq_sync.worker.events import (
    JobEnded,
    JobsClaimed,
    JobsHandedBack,
    JobStarted,
    ListeningChanged,
    QueuesPaused,
)

Drain = Callable[..., WorkerThread]
Work = Callable[..., WorkerThread]


@pytest.fixture
def ran(tq: TaskQ) -> list[int]:
    """The numbers that the task `t` of queue `q` was called with, in order."""
    numbers: list[int] = []

    @tq.task(name="t", queue="q")
    def handler(number: int = 0) -> None:
        numbers.append(number)

    return numbers


def sleeping(sql: Contract) -> bool:
    return bool(sql.value("select count(*) from taskq.sleepers"))


def looks(worker: WorkerThread) -> int:
    return len(worker.of(JobsClaimed))


def test_a_sleeping_worker_is_woken_by_an_enqueue(ran: list[int], work: Work, sql: Contract) -> None:
    work(poll_interval=600)
    eventually(lambda: sleeping(sql), "the worker sleeps")
    sql.new_job(payload={"number": 1})
    eventually(lambda: ran == [1], "the job is run")


def test_a_job_of_a_callers_transaction_starts_with_its_commit(
    ran: list[int], work: Work, sql: Contract, connect: Callable[..., Connection]
) -> None:
    """B81: not before, though the worker looks meanwhile, and at once, though it sleeps."""
    work(poll_interval=600)
    eventually(lambda: sleeping(sql), "the worker sleeps")
    caller = connect(autocommit=False)
    Contract(caller).new_job(payload={"number": 1})
    sql.new_job(payload={"number": 2})
    eventually(lambda: ran == [2] and sleeping(sql), "another job is run, and the worker sleeps again")
    caller.commit()
    eventually(lambda: ran == [2, 1], "the job is run")


def test_an_enqueue_that_saw_nobody_asleep_is_found(
    ran: list[int], work: Work, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer looked before the registration was there and sends no notification."""
    monkeypatch.setattr(rest, "LOOKS_AFTER_LYING_DOWN", (0.0, 0.1, 0.3))
    work(poll_interval=600)
    eventually(lambda: sleeping(sql), "the worker sleeps")
    with sql.conn.transaction():
        sql.run("delete from taskq.sleepers")
        sql.new_job(payload={"number": 1}, skip_wake=True)
    eventually(lambda: ran == [1], "the job is run")


def test_a_delayed_job_starts_when_it_is_due(ran: list[int], work: Work, sql: Contract) -> None:
    work(poll_interval=600)
    eventually(lambda: sleeping(sql), "the worker sleeps")
    sql.new_job(payload={"number": 1}, delay="300 ms")
    eventually(lambda: ran == [1], "the job is run")


def test_a_retry_starts_when_it_is_due(tq: TaskQ, work: Work) -> None:
    @tq.task(queue="q", backoff=0.2)
    def handler(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ValueError("once")

    job_id = handler.enqueue().job_id
    work(poll_interval=600)
    eventually(lambda: tq.get(job_id).status == "succeeded", "the second attempt is run")


def test_works_without_notifications(ran: list[int], dsn: str, sql: Contract, tq: TaskQ) -> None:
    with TaskQ(dsn, pooled=True) as deaf:
        deaf.registry.add(tq.registry.get("t"))
        worker = WorkerThread(deaf, poll_interval=0.05, slots=2).start()
        try:
            sql.new_job(payload={"number": 1})
            eventually(lambda: ran == [1], "the job is run")
            assert not sleeping(sql)
            assert not worker.of(ListeningChanged)
        finally:
            worker.stop()


def test_listens_again_after_the_connection_was_lost(ran: list[int], work: Work, sql: Contract) -> None:
    """B14: and looks once, for what was said in between."""
    worker = work(poll_interval=600)
    worker.wait_for(ListeningChanged)
    sql.run(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and application_name like '%%-listener'"
    )
    eventually(
        lambda: [e.listening for e in worker.of(ListeningChanged)] == [True, False, True], "it listens again"
    )
    eventually(lambda: sleeping(sql), "the worker sleeps")
    sql.new_job(payload={"number": 1})
    eventually(lambda: ran == [1], "the job is run")


def test_a_long_job_does_not_keep_the_next_one_waiting(tq: TaskQ, work: Work, gate: Gate) -> None:
    short = threading.Event()

    @tq.task(name="long", queue="q")
    def long(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    @tq.task(name="short", queue="q")
    def quick() -> None:
        short.set()

    long.enqueue()
    for _ in range(20):
        quick.enqueue()
    work(slots=2)
    gate.wait()
    assert short.wait(PATIENCE)


def test_jobs_that_no_slot_starts_in_time_go_back(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.1)

    @tq.task(queue="q")
    def handler(ctx: JobContext, number: int) -> None:
        if number == 300:
            gate.pass_through(ctx)

    tq.enqueue_many(handler.job(number=number) for number in range(600))
    worker = work(slots=1)
    gate.wait()
    eventually(lambda: sql.value("select count(*) from taskq.running") == 1, "the others go back")
    assert sum(event.count for event in worker.of(JobsHandedBack)) > 0
    assert sql.value("select count(*) from taskq.ready where failure_count = 0") == 299
    assert sql.value("select count(*) from taskq.attempts") == 0
    gate.open.set()
    eventually(lambda: sql.value("select count(*) from taskq.finished") == 600, "all are run in the end")


@pytest.mark.parametrize("options", [{"concurrency_key": "k"}, {"max_attempts": 1}], ids=str)
def test_jobs_that_must_not_wait_start_first_or_go_back(
    tq: TaskQ, drain: Drain, sql: Contract, options: dict[str, object]
) -> None:
    """One slot, large claims, and in the middle of each a job that must not wait behind others."""

    @tq.task(name="t", queue="q")
    def handler(number: int) -> None: ...

    special = handler.using(**options)  # type: ignore[arg-type]
    requests = [(special if number % 100 == 50 else handler).job(number=number) for number in range(2000)]
    results = tq.enqueue_many(requests)
    must_not_wait = {result.job_id for number, result in enumerate(results) if number % 100 == 50}
    worker = drain(slots=1)

    assert sql.value("select count(*) from taskq.finished where status = 'succeeded'") == 2000
    started = [event.job for event in worker.of(JobStarted)]
    claims: dict[object, list[int]] = {}
    for job in started:
        claims.setdefault(job.lease_expires_at - job.lease, []).append(job.job_id)
    assert max(len(jobs) for jobs in claims.values()) > 50
    for jobs in claims.values():
        assert not must_not_wait & set(jobs[1:]), "it has waited behind another job of its claim"
    assert sql.value("select count(*) from taskq.attempts") == 0


def test_jobs_of_one_key_run_one_after_the_other(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    running = threading.Semaphore(1)

    @tq.task(queue="q", concurrency_key="k")
    def handler(number: int) -> None:
        assert running.acquire(blocking=False)
        running.release()

    results = tq.enqueue_many(handler.job(number=number) for number in range(60))
    assert drain(slots=4).code == 0
    assert {tq.get(result).status for result in results} == {"succeeded"}
    assert sql.value("select count(*) from taskq.attempts") == 0


def test_each_queue_is_first_in_proportion_to_its_weight(
    tq: TaskQ, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "HORIZON", 0.0)  # so that a claim brings one job
    ran: list[str] = []

    @tq.task(name="t", queue="a")
    def handler(queue: str) -> None:
        ran.append(queue)

    tq.enqueue_many(handler.using(queue=queue).job(queue=queue) for queue in "ab" * 15)
    assert drain(slots=1, queues={"a": 3, "b": 1}).code == 0

    assert "".join(ran) == "aaba" * 5 + "b" * 10


@pytest.mark.parametrize("strict", [True, False])
def test_strict_serves_no_other_queue_while_the_first_has_jobs(tq: TaskQ, drain: Drain, strict: bool) -> None:
    ran: list[str] = []

    @tq.task(name="t", queue="a")
    def handler(queue: str) -> None:
        ran.append(queue)

    tq.enqueue_many(handler.using(queue=queue).job(queue=queue) for queue in "ab" * 100)
    assert drain(slots=1, queues=["b", "a"], strict=strict).code == 0

    assert (ran == ["b"] * 100 + ["a"] * 100) == strict
    assert sorted(ran) == ["a"] * 100 + ["b"] * 100


def test_a_pause_is_honoured_before_a_handler_starts(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 600.0)

    @tq.task(queue="q")
    def handler(ctx: JobContext, number: int) -> None:
        if number == 200:
            gate.pass_through(ctx)

    tq.enqueue_many(handler.job(number=number) for number in range(400))
    worker = work(slots=1, announce_every=0.05)
    gate.wait()
    sql.pause_queue(queue="q", actor="test", reason="test")
    worker.wait_for(QueuesPaused)
    gate.open.set()
    eventually(lambda: sql.value("select count(*) from taskq.running") == 0, "what was claimed goes back")
    assert len([e for e in worker.of(JobEnded) if e.verdict and e.verdict.verb == "complete"]) == 201
    assert sql.value("select count(*) from taskq.attempts") == 0
    sql.resume_queue(queue="q", actor="test", reason="test")
    eventually(lambda: sql.value("select count(*) from taskq.finished") == 400, "the rest is run")


def test_a_cancel_is_honoured_before_a_handler_starts(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 600.0)
    started: list[int] = []

    @tq.task(queue="q", lease=0.6)
    def handler(ctx: JobContext, number: int) -> None:
        started.append(number)
        if number == 200:
            gate.pass_through(ctx)

    results = tq.enqueue_many(handler.job(number=number) for number in range(202))
    work(slots=1)
    gate.wait()
    eventually(
        lambda: sql.value("select count(*) from taskq.running") == 2, "the last job waits for the slot"
    )
    sql.cancel_job(job_id=results[201].job_id, actor="test", reason="never mind")
    beat = sql.job(results[201].job_id)["lease_expires_at"]
    eventually(lambda: sql.job(results[201].job_id)["lease_expires_at"] > beat, "it was beaten since")
    gate.open.set()
    eventually(lambda: tq.get(results[201]).status == "cancelled", "the job is cancelled")
    assert 201 not in started
    assert tq.get(results[201]).reason == "never mind"


def test_looks_seldom_when_a_queue_is_ready_and_nothing_comes(
    ran: list[int], work: Work, sql: Contract, connect: Callable[[], Connection]
) -> None:
    """HARD-SPOTS 18: the only due row is locked by somebody else."""
    sql.new_job()
    other = connect()
    with other.transaction():
        other.execute("select from taskq.ready for update")
        worker = work(poll_interval=600)
        eventually(lambda: looks(worker) >= 6, "it has looked some times")
        seen = worker.of(JobsClaimed)
        assert {event.count for event in seen} == {0}
    eventually(lambda: ran == [0], "the job is run once the row is free")
