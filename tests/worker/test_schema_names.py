"""Workers in a schema whose name needs quotes, and jobs whose names have every character."""

# Scenario B75.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kit import isolated
from kit.waiting import eventually
from kit.workers import WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.db.schema import Schema
from taskq_sync.model import Verdict
from taskq_sync.worker.events import StateChanged

NAMES = ["My-Queue", "user", "1q", "x.job", "a" * 48]


@pytest.fixture(params=NAMES)
def schema(request: pytest.FixtureRequest, dsn: str) -> Iterator[str]:
    """A schema of that name beside the usual one; dropped at the end, when its records must be in order."""
    name = str(request.param)
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert Schema(name).migrate(conn).changed
        assert not Schema(name).migrate(conn).changed
        yield name
        assert conn.execute(f'select * from "{name}".check_integrity()').fetchall() == []
        conn.execute("set client_min_messages = warning")
        conn.execute(f'drop schema "{name}" cascade')


@pytest.fixture
def odd_tq(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskQ]:
    monkeypatch.setenv("TASKQ_DSN", dsn)
    monkeypatch.setenv("TASKQ_SCHEMA", schema)
    with TaskQ() as made:
        yield made


def test_a_worker_does_everything_in_its_own_schema(
    odd_tq: TaskQ, schema: str, conn: psycopg.Connection[Any]
) -> None:
    tq = odd_tq

    @tq.task(name="add", queue="q", isolation="process")
    def add(a: int, b: int) -> int: ...  # the child finds it in `kit.isolated`

    @tq.task(name="all", queue="q", backoff=0)
    def handler(ctx: JobContext, number: int) -> None:
        ctx.checkpoint(number, flush=True)
        if ctx.attempt == 1:
            raise ValueError("not yet")
        with ctx.transaction() as tx:
            tx.execute("select 1")
            tx.complete({"number": number})

    jobs = tq.enqueue_many(
        handler.using(unique_key=str(n), concurrency_key="k").job(number=n) for n in range(3)
    )
    child = add.enqueue(a=1, b=2)
    options = {"slots": 2, "application": isolated.APPLICATION, "take_back_every": 0.1, "prune_every": 0.1}
    worker = WorkerThread(tq, poll_interval=60, **options).start()
    later = handler.using(delay=0.3).enqueue(number=7)  # a notification, or a due time that was registered
    ended = [*jobs, child, later]
    eventually(lambda: {tq.get(each).status for each in ended} == {"succeeded"}, "the jobs end")
    assert worker.stop() == 0

    assert "degraded" not in [event.after for event in worker.of(StateChanged)]
    assert [tq.get(each).result for each in jobs] == [{"number": n} for n in range(3)]
    assert tq.get(child).result == 3
    assert conn.execute("select count(*) from taskq.jobs").fetchone() == (0,)


def test_a_lease_that_runs_out_is_taken_back_there(odd_tq: TaskQ, schema: str) -> None:
    tq = odd_tq

    @tq.task(name="t", queue="q", lease=0.1)
    def handler(ctx: JobContext) -> int:
        return ctx.attempt

    job = handler.enqueue()
    with tq.database.connection() as session:
        [lost] = tq.jobs.claim(session, ["q"], "gone", 1)
    worker = WorkerThread(tq, take_back_every=0.05, beat=0.02).start()
    eventually(lambda: tq.get(job).status == "succeeded", "the job is run again")
    assert worker.stop() == 0
    assert tq.get(job).result == 2
    with tq.database.connection() as session:
        [late] = tq.jobs.settle(session, "gone", [Verdict.complete(lost.job_id, lost.attempt_id)])
    assert late.result == "lost"


ODD = [
    "o'brien",
    'a"b',
    "a$$b",
    "$1",
    "p%s{0}",
    "%(name)s",
    "schéma 🐘",
    "\\",
    "-- ;",
    "a/b",
    "{q}",
    ",",
    "null",
    " ",
]


@pytest.mark.parametrize("name", ODD)
def test_queues_tasks_and_keys_may_have_any_character(
    tq: TaskQ, drain: Callable[..., WorkerThread], name: str
) -> None:
    @tq.task(name=name, queue=name, unique_key=name, concurrency_key=name)
    def handler(data: dict[str, str]) -> dict[str, str]:
        return data

    alone = handler.enqueue(data={name: name})
    [many] = tq.enqueue_many([handler.job(data={name: name})])
    assert (many.status, many.job_id) == ("existed", alone.job_id)
    assert drain().code == 0
    job = tq.get(alone)
    assert (job.queue, job.task, job.unique_key, job.concurrency_key) == (name,) * 4
    assert (job.status, job.result) == ("succeeded", {name: name})
