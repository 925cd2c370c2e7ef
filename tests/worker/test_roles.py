"""A worker whose role may execute the functions of a worker and a producer, and nothing else."""

# Scenario B77.

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from kit.contract import Connection, Contract
from kit.roles import Role
from kit.waiting import eventually
from kit.workers import WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.db.sqlfiles import shipped_files
from taskq_sync.worker.events import ChoreFailing, PartDied, StateChanged

#: The folders of the functions that a worker calls, and what it reads of the rest.
FOLDERS = ("functions/worker/", "functions/producer/", "functions/housekeeping/")
READS = {"schema_version", "get_job"}


@pytest.fixture
def runtime(make_role: Callable[[], Role], conn: Connection) -> Role:
    """A login with USAGE and EXECUTE; it owns nothing and may create nothing."""
    role = make_role()
    conn.execute(f"grant usage on schema taskq to {role.name}")
    for file in shipped_files().functions:
        if file.path.startswith(FOLDERS) or file.name in READS:
            conn.execute(f"grant execute on function taskq.{file.name} to {role.name}")
    conn.execute(f"grant execute on function taskq.clock to {role.name}")
    return role


@pytest.fixture
def runtime_tq(runtime: Role) -> Iterator[TaskQ]:
    with TaskQ(runtime.dsn) as made:
        yield made


def test_runs_jobs_and_keeps_house(runtime_tq: TaskQ, runtime: Role, sql: Contract) -> None:
    tq = runtime_tq

    @tq.task(name="t", queue="q", backoff=0)
    def handler(ctx: JobContext) -> int:
        ctx.checkpoint("begun", flush=True)
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return ctx.attempt

    @tq.task(name="atomic", queue="q")
    def atomic(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            assert tx.execute("select current_user::text") == [(runtime.name,)]

    jobs = [handler.enqueue(), atomic.enqueue()]
    abandoned = sql.new_job(queue="other", lease="0.1 s")
    sql.claim(queues=["other"], worker_id="gone")
    worker = WorkerThread(tq, take_back_every=0.05, prune_every=0.05, beat=0.02).start()
    eventually(lambda: {tq.get(job).status for job in jobs} == {"succeeded"}, "the jobs end")
    eventually(lambda: sql.job(abandoned)["status"] == "queued", "the abandoned job is taken back")
    assert worker.stop() == 0

    assert not worker.of(ChoreFailing)
    assert not worker.of(PartDied)
    assert "degraded" not in [event.after for event in worker.of(StateChanged)]
    assert sql.job(jobs[0].job_id)["enqueued_by"] == runtime.name


def test_leaves_the_definitions_alone(runtime_tq: TaskQ, sql: Contract) -> None:
    """No worker installs, repairs or analyses anything."""
    definitions = (
        "select count(*), max(xmin::text::bigint) from pg_class where relnamespace = 'taskq'::regnamespace"
    )
    [before] = sql.rows(definitions)
    runtime_tq.task(name="t", queue="q")(lambda: None).enqueue()
    worker = WorkerThread(runtime_tq, burst=True, prune_every=0.05)
    assert worker.join() == 0
    assert sql.rows(definitions) == [before]


def test_needs_no_extension(sql: Contract) -> None:
    """A role that is no superuser may create few of them, and where trusted ones are not installed, none."""
    assert sql.rows("select extname from pg_extension where extname <> 'plpgsql'") == []


def test_may_create_nothing(runtime: Role) -> None:
    """Else the tests above would prove nothing."""
    with runtime.connect() as conn:
        for statement in ("create schema mine", "create table taskq.mine (id int)", "select from taskq.jobs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement)
