"""What a run says of its jobs, and when that is an exit code of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.contract import Contract
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import Cancel, JobContext, NonRetryable, Retry, Snooze, TaskQ
from taskq_sync.worker.summary import COUNTS

Drain = Callable[..., WorkerThread]

#: The whole of a job's life in a few handlers: what the payload asks for, they do.
ENDS: dict[str, Callable[[], object]] = {
    "complete": lambda: None,
    "cancel": lambda: Cancel("enough"),
    "snooze": lambda: Snooze(60),
    "retry": lambda: Retry(60),
    "give up": lambda: NonRetryable("hopeless"),
    "raise": lambda: 1 / 0,
}


@pytest.fixture
def end(tq: TaskQ) -> Any:
    """A task that ends as its payload says."""

    @tq.task(name="end", queue="q", backoff=0, max_attempts=2)
    def end(how: str) -> object:
        return ENDS[how]()

    return end


def counts(worker: WorkerThread) -> dict[str, object]:
    """What was counted, without the zeros."""
    facts = worker.worker.summary.facts()
    return {name: facts[name] for name in (*COUNTS, "failing") if facts[name]}


def test_counts_where_the_attempts_have_landed(end: Any, drain: Drain) -> None:
    for how in ("complete", "complete", "cancel", "snooze", "retry", "give up", "raise"):
        end.enqueue(how=how)
    assert counts(drain()) == {
        "started": 8,  # what raised was tried twice
        "succeeded": 2,
        "cancelled": 1,
        "snoozed": 1,
        "retried": 2,
        "failed": 2,
        "failing": 3,
    }


def test_says_who_ran_why_it_ended_and_how_long_it_took(end: Any, drain: Drain) -> None:
    worker = drain()
    facts = worker.worker.summary.facts()
    assert (facts["worker_id"], facts["reason"], facts["exit_code"]) == (
        worker.worker.worker_id,
        "nothing is due",
        0,
    )
    assert isinstance(facts["seconds"], float)
    assert 0 < facts["seconds"] < 60


def test_knows_what_was_never_started(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    @tq.task(queue="q")
    def handler() -> None: ...

    sql.new_job(task="nope")
    assert counts(drain()) == {"released": 1}


def test_a_completion_in_the_transaction_of_the_handler_is_a_success(tq: TaskQ, drain: Drain) -> None:
    @tq.task
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as transaction:
            transaction.complete(1)

    handler.enqueue()
    assert counts(drain()) == {"started": 1, "succeeded": 1}


def test_a_lost_lease_is_counted(tq: TaskQ, work: Drain, gate: Gate, sql: Contract) -> None:
    @tq.task
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work(fail_on_error=True)
    gate.wait()
    sql.cancel_job(job_id=job_id)  # so that it ends where it is taken back, and nobody runs it again
    sql.run_out(job_id)
    eventually(lambda: sql.take_back(), "the job is taken back")
    gate.open.set()
    eventually(lambda: counts(worker).get("lost"), "the verdict is lost")
    assert worker.stop() == 0
    assert counts(worker) == {"started": 1, "lost": 1}


def test_a_child_that_died_is_counted_as_a_failure(
    enqueue: Callable[..., int],
    isolated_tasks: None,
    drain_isolated: Drain,
    sql: Contract,
    tmp_path: Path,
) -> None:
    suspect = enqueue("kill_worker", starts=str(tmp_path / "starts"), _max_attempts=10)
    sql.claim(queues=["q"], worker_id="dead")
    sql.run_out(suspect)
    sql.take_back()
    sql.make_due(suspect)
    worker = drain_isolated(fail_on_error=True)
    assert counts(worker) == {"started": 1, "died": 1, "failing": 1}
    assert worker.code == 4


class TestFailOnError:
    @pytest.mark.parametrize(
        ("how", "code"),
        [("complete", 0), ("cancel", 0), ("snooze", 0), ("retry", 4), ("give up", 4), ("raise", 4)],
    )
    def test_is_4_when_the_last_attempt_of_a_job_failed(
        self, end: Any, drain: Drain, how: str, code: int
    ) -> None:
        end.enqueue(how=how)
        end.enqueue(how="complete")
        assert drain(fail_on_error=True).code == code

    def test_is_0_when_the_job_has_recovered_in_the_same_run(self, tq: TaskQ, drain: Drain) -> None:
        @tq.task(backoff=0)
        def handler(ctx: JobContext) -> None:
            if ctx.job.failure_count < 2:
                raise ValueError("not yet")

        handler.enqueue()
        worker = drain(fail_on_error=True)
        assert worker.code == 0
        assert counts(worker) == {"started": 3, "retried": 2, "succeeded": 1}

    def test_is_not_asked_for(self, end: Any, drain: Drain) -> None:
        end.enqueue(how="give up")
        assert drain().code == 0

    def test_does_not_hide_a_worse_code(self, tq: TaskQ, drain: Drain, gate: Gate) -> None:
        @tq.task
        def fails() -> None:
            raise ValueError("bad")

        @tq.task
        def hangs(ctx: JobContext) -> None:
            gate.pass_through(ctx)

        fails.enqueue()
        hangs.enqueue()
        worker = drain(fail_on_error=True, max_seconds=0.5, soft_stop_timeout=0.2)
        assert worker.code == 3


def test_nothing_is_counted_where_nobody_asks(tq: TaskQ, end: Any, work: Drain) -> None:
    job = end.enqueue(how="complete")
    worker = work()
    eventually(lambda: tq.get(job).status == "succeeded", "it is run")
    assert worker.stop() == 0
    assert counts(worker) == {}
