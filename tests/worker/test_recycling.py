"""Limits after which a worker stops softly, so that a fresh process may take its place."""

from __future__ import annotations

import gc
from collections.abc import Callable

from kit.contract import Contract
from kit.outage import Outages
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.worker.events import StateChanged, WorkerSpent
from taskq_sync.worker.memory import resident_memory

Work = Callable[..., WorkerThread]


def test_a_worker_ends_after_its_jobs_and_gives_back_what_it_has_not_started(
    tq: TaskQ, work: Work, sql: Contract
) -> None:
    @tq.task(queue="q")
    def handler(number: int) -> None: ...

    tq.enqueue_many(handler.job(number=number) for number in range(5000))
    worker = work(max_jobs_per_child=50)
    assert worker.join() == 0
    assert [event.reason for event in worker.of(WorkerSpent)] == ["it has run 50 jobs"]
    done = sql.value("select count(*) from taskq.finished where status = 'succeeded'")
    assert 50 <= done < 5000
    assert sql.value("select count(*) from taskq.ready") == 5000 - done


def test_a_worker_that_has_grown_waits_for_its_handlers(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    @tq.task(queue="q")
    def handler(ctx: JobContext) -> int:
        kept = b"x" * (300 * 1024 * 1024)
        gate.pass_through(ctx)
        return len(kept)

    gc.collect()  # what another test has left must not be given back in the middle of this one
    worker = work(max_memory_per_child=resident_memory() + 150 * 1024 * 1024, take_back_every=0.05)
    job = handler.enqueue().job_id
    gate.wait()
    worker.wait_for(WorkerSpent)
    gate.open.set()
    assert worker.join() == 0
    assert sql.job(job)["status"] == "succeeded"
    assert len(worker.of(WorkerSpent)) == 1
    assert "MiB of memory" in worker.of(WorkerSpent)[0].reason


def test_the_first_signal_to_a_worker_that_is_ending_anyway_still_waits(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    @tq.task(queue="q", name="long")
    def long(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    @tq.task(queue="q", name="short")
    def short() -> None: ...

    worker = work(max_jobs_per_child=1)
    job = long.enqueue().job_id
    ctx = gate.wait()
    short.enqueue()
    worker.wait_for(StateChanged, lambda event: event.after == "stopping")
    requests = worker.worker._lifecycle._requests
    for insistent in (True, False):  # the second is taken when all that follows from the first is done
        worker.worker.stop(insistent=insistent)
        eventually(requests.empty, "it has heard")
    assert not ctx.should_stop
    gate.open.set()
    assert worker.join() == 0
    assert sql.job(job)["status"] == "succeeded"


def test_memory_is_measured_while_the_database_is_away(
    tq: TaskQ, work: Work, outages: Outages, gate: Gate
) -> None:
    @tq.task(queue="q")
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)
        kept.append(b"x" * (300 * 1024 * 1024))

    kept: list[bytes] = []
    worker = work(max_memory_per_child=resident_memory() + 150 * 1024 * 1024, take_back_every=0.05)
    handler.enqueue()
    gate.wait()
    with outages.away():
        gate.open.set()
        worker.wait_for(WorkerSpent)
    assert worker.join() == 0


def test_a_worker_that_is_too_large_from_the_start_runs_a_job_all_the_same(
    tq: TaskQ, work: Work, sql: Contract
) -> None:
    """Otherwise each fresh process would end at once, and no job would ever be run."""

    @tq.task(queue="q")
    def handler() -> None: ...

    worker = work(max_memory_per_child=1, take_back_every=0.05)
    job = handler.using(delay=0.5).enqueue().job_id
    assert worker.join() == 0
    assert sql.job(job)["status"] == "succeeded"
