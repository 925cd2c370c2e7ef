"""What every worker does for all of them: take back, expire, prune."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kit.contract import Contract
from kit.outage import Outages
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.db.pool import Database
from taskq_sync.db.session import Session
from taskq_sync.errors import DatabaseUnavailable
from taskq_sync.worker import housekeeper
from taskq_sync.worker.events import ChoreFailing, Housekept, LeaseDoubtful

Work = Callable[..., WorkerThread]


def task(tq: TaskQ, queue: str = "q") -> None:
    @tq.task(name="t", queue=queue)
    def handler() -> None: ...


def _see_chores_done(sql: Contract, *, times: int) -> None:
    """Wait for passes that end what has expired; each comes after one that takes back."""
    for _ in range(times):
        old = sql.new_job(queue="other", ttl="1 ms")
        eventually(partial(_is_cancelled, sql, old), "other chores are done")


def _is_cancelled(sql: Contract, job_id: int) -> bool:
    return bool(sql.job(job_id)["status"] == "cancelled")


def test_takes_back_what_a_dead_worker_held(
    tq: TaskQ, work: Work, sql: Contract, caplog: pytest.LogCaptureFixture
) -> None:
    """B01, B07: whatever became of the worker that held it."""
    task(tq)
    attempt = sql.new_attempt()
    sql.run_out(attempt["job_id"])
    worker = work(take_back_every=0.05, lease=0.3)
    eventually(lambda: sql.job(attempt["job_id"])["status"] == "succeeded", "the job is run")
    assert worker.wait_for(Housekept).job_ids == (attempt["job_id"],)
    assert [
        each for each in caplog.messages if each.startswith(f"took back job {attempt['job_id']}, whose lease")
    ]
    assert [row["verb"] for row in sql.job_history(job_id=attempt["job_id"])] == ["take_back", "complete"]


def test_takes_back_for_queues_and_tasks_that_it_does_not_know(tq: TaskQ, work: Work, sql: Contract) -> None:
    """B09: the policy stands with the job."""
    task(tq)
    attempt = sql.new_attempt(queue="other", task="nope", max_attempts=1)
    sql.run_out(attempt["job_id"])
    work(take_back_every=0.05, lease=0.3)
    eventually(lambda: sql.job(attempt["job_id"])["outcome"] == "retry_exhausted", "the job has failed")


def test_touches_no_job_whose_lease_lasts(tq: TaskQ, work: Work, sql: Contract) -> None:
    """B11: no start looks for what it might have left behind itself."""
    task(tq)
    attempt = sql.new_attempt()
    passed = sql.new_attempt(queue="other")
    sql.run_out(passed["job_id"])
    work(take_back_every=0.05, lease=0.3)
    eventually(lambda: sql.job(passed["job_id"])["status"] == "queued", "a pass was made")
    assert sql.job(attempt["job_id"])["current_attempt_id"] == attempt["attempt_id"]


def test_after_each_connect_the_owners_come_first(
    tq: TaskQ, work: Work, sql: Contract, outages: Outages
) -> None:
    task(tq)
    worker = work(take_back_every=0.02, prune_every=0.02)
    attempt = sql.new_attempt(queue="other")
    sql.run_out(attempt["job_id"])
    _see_chores_done(sql, times=10)
    assert sql.job(attempt["job_id"])["status"] == "running"
    assert not [event for event in worker.of(Housekept) if event.chore == "take back"]


def test_after_an_outage_the_owners_have_the_time_that_their_links_may_pause(
    tq: TaskQ, work: Work, sql: Contract, outages: Outages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeper, "FOUND_AGAIN", 60.0)
    task(tq)
    work(take_back_every=0.02, prune_every=0.02, lease=0.15)
    before = sql.new_attempt(queue="other")
    sql.run_out(before["job_id"])
    eventually(lambda: sql.job(before["job_id"])["status"] == "queued", "the first grace is over")
    eventually(lambda: outages.cut("-housekeeper"), "there is a connection to cut")
    attempt = sql.new_attempt(queue="third")
    sql.run_out(attempt["job_id"])
    _see_chores_done(sql, times=10)
    assert sql.job(attempt["job_id"])["status"] == "running"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is set, no heartbeat finds the database."""
    connect = Database.connect
    made = threading.Event()

    def refuse(self: Database, name: str, timeout: float | None = None) -> Session:
        if name.endswith("-heartbeat") and made.is_set():
            raise DatabaseUnavailable("too many connections")
        return connect(self, name, timeout)

    monkeypatch.setattr(Database, "connect", refuse)
    yield made
    made.clear()


def test_own_jobs_wait_for_the_heartbeat_that_finds_the_database_last(
    tq: TaskQ,
    work: Work,
    sql: Contract,
    outages: Outages,
    gate: Gate,
    refused: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeper, "FOUND_AGAIN", 0.0)  # else that alone would be long enough

    @tq.task(name="t", queue="q", lease=1)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work(slots=1, take_back_every=0.02, prune_every=0.02, lease=1)
    gate.wait()
    refused.set()
    outages.cut()
    worker.wait_for(LeaseDoubtful)
    sql.run_out(job_id)
    _see_chores_done(sql, times=20)
    assert sql.job(job_id)["status"] == "running"
    refused.clear()
    gate.open.set()
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is completed")
    assert sql.job(job_id)["attempt_count"] == 1


def test_a_heartbeat_that_finds_the_database_never_does_not_keep_the_others_waiting(
    tq: TaskQ,
    work: Work,
    sql: Contract,
    outages: Outages,
    gate: Gate,
    refused: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeper, "OWN_FIRST", 0.2)

    @tq.task(name="t", queue="q", lease=1)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    handler.enqueue()
    worker = work(slots=1, take_back_every=0.05, lease=1)
    gate.wait()
    refused.set()
    outages.cut("-heartbeat")
    worker.wait_for(LeaseDoubtful)
    orphan = sql.new_attempt(queue="other")
    sql.run_out(orphan["job_id"])
    eventually(lambda: sql.job(orphan["job_id"])["status"] == "queued", "it is taken back")


def test_ends_jobs_past_their_time_to_live(tq: TaskQ, work: Work, sql: Contract) -> None:
    task(tq)
    job_id = sql.new_job(queue="other", ttl="1 ms")
    work(prune_every=0.05)
    eventually(lambda: sql.job(job_id)["outcome"] == "expired_ttl", "the job has expired")


def test_deletes_jobs_past_their_retention(tq: TaskQ, work: Work, sql: Contract) -> None:
    task(tq)
    attempt = sql.new_attempt(queue="other")
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    sql.run("update taskq.finished set purge_at = taskq.clock() - interval '1 s'")
    work(prune_every=0.05)
    eventually(lambda: not sql.value("select count(*) from taskq.jobs"), "the job is deleted")


def test_a_chore_that_fails_keeps_nobody_from_running_jobs(tq: TaskQ, work: Work, sql: Contract) -> None:
    task(tq)
    sql.run("alter function taskq.prune(int) rename to prune_away")
    try:
        worker = work(prune_every=0.02)
        failing = worker.wait_for(ChoreFailing)
        assert failing.chore == "prune"
        job_id = sql.new_job()
        eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is run")
    finally:
        sql.run("alter function taskq.prune_away(int) rename to prune")
    eventually(lambda: worker.of(ChoreFailing)[-1].error is None, "the chore works again")
    assert [event.chore for event in worker.of(ChoreFailing)] == ["prune", "prune"]
