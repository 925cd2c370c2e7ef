"""`ctx.transaction()`: the handler's rows and the completion of its job are one commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from kit.contract import Connection, Contract
from kit.waiting import PATIENCE, eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, PayloadError, TaskQ
from taskq_sync.errors import ConfigError, LeaseLost, WrongState
from taskq_sync.model import Job
from taskq_sync.worker.events import JobEnded, JobFailed, LeaseWasLost, VerdictRefused

Drain = Callable[..., WorkerThread]
Work = Callable[..., WorkerThread]


@pytest.fixture(autouse=True)
def effects(conn: Connection) -> Iterator[Callable[[], list[int]]]:
    """The rows that handlers have written to a table of their own."""
    conn.execute("create table effects (number int unique deferrable initially deferred)")
    yield lambda: [row[0] for row in conn.execute("select number from effects order by 1")]
    conn.execute("drop table effects")


def run_one(tq: TaskQ, drain: Drain, handler: Callable[[JobContext], object]) -> tuple[Job, WorkerThread]:
    @tq.task(name="t", max_attempts=1)
    def task(ctx: JobContext) -> object:
        return handler(ctx)

    job_id = task.enqueue().job_id
    worker = drain()
    assert worker.code == 0
    assert not worker.of(VerdictRefused)
    return tq.get(job_id), worker


def test_rows_and_completion_commit_together(
    tq: TaskQ, drain: Drain, effects: Callable[[], list[int]]
) -> None:
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into effects values (%s)", [1])
            assert tx.execute("select number from effects") == [(1,)]
            tx.complete({"rows": 1})
            assert effects() == []

    job, worker = run_one(tq, drain, handler)
    assert (job.status, job.result) == ("succeeded", {"rows": 1})
    assert effects() == [1]
    [ended] = worker.of(JobEnded)
    assert ended.verdict is None


def test_leaving_without_complete_completes_with_null(tq: TaskQ, drain: Drain) -> None:
    def handler(ctx: JobContext) -> str:
        with ctx.transaction():
            pass
        return "too late"

    job, _ = run_one(tq, drain, handler)
    assert (job.status, job.result) == ("succeeded", None)


def test_an_exception_rolls_both_back(tq: TaskQ, drain: Drain, effects: Callable[[], list[int]]) -> None:
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into effects values (1)")
            tx.complete()
            raise ValueError("bad")

    job, _ = run_one(tq, drain, handler)
    assert (job.status, job.outcome) == ("failed", "retry_exhausted")
    assert effects() == []


def test_an_error_of_the_commit_fails_the_attempt(
    tq: TaskQ, drain: Drain, effects: Callable[[], list[int]]
) -> None:
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into effects values (1), (1)")

    job, _ = run_one(tq, drain, handler)
    assert job.status == "failed"
    assert job.error is not None
    assert "duplicate key" in job.error
    assert effects() == []


def test_after_a_roll_back_the_handler_may_end_in_another_way(tq: TaskQ, drain: Drain) -> None:
    def handler(ctx: JobContext) -> str:
        with pytest.raises(psycopg.errors.UndefinedTable), ctx.transaction() as tx:
            tx.execute("select * from nowhere")
        return "by hand"

    job, _ = run_one(tq, drain, handler)
    assert (job.status, job.result) == ("succeeded", "by hand")


def test_an_attempt_has_one_transaction(tq: TaskQ, drain: Drain, effects: Callable[[], list[int]]) -> None:
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into effects values (1)")
        with pytest.raises(WrongState), ctx.transaction() as tx:
            tx.execute("insert into effects values (2)")

    job, _ = run_one(tq, drain, handler)
    assert job.status == "succeeded"
    assert effects() == [1]


def test_an_exception_after_the_commit_changes_nothing(tq: TaskQ, drain: Drain) -> None:
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.complete(7)
        raise ValueError("afterwards")

    job, worker = run_one(tq, drain, handler)
    assert (job.status, job.result) == ("succeeded", 7)
    [failed] = worker.of(JobFailed)
    assert "afterwards" in failed.text


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_another_isolation_level_is_refused(
    tq: TaskQ, drain: Drain, effects: Callable[[], list[int]], level: str
) -> None:
    def handler(ctx: JobContext) -> None:
        def escape() -> None:
            with ctx.transaction() as tx:
                tx.execute(f"set transaction isolation level {level}")
                tx.execute("insert into effects values (1)")

        with pytest.raises(ConfigError, match=level):
            escape()

    job, _ = run_one(tq, drain, handler)
    assert job.status == "succeeded"
    assert effects() == []


def test_runs_at_read_committed_whatever_the_role_says(
    tq: TaskQ, drain: Drain, conn: Connection, effects: Callable[[], list[int]]
) -> None:
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.complete(tx.execute("show transaction_isolation")[0][0])

    database = conn.info.dbname
    conn.execute(f'alter database "{database}" set default_transaction_isolation = serializable'.encode())
    try:
        job, _ = run_one(tq, drain, handler)
    finally:
        conn.execute(f'alter database "{database}" reset default_transaction_isolation'.encode())
    assert job.result == "read committed"


def test_a_result_that_cannot_be_stored_is_the_handlers_error_at_once(tq: TaskQ, drain: Drain) -> None:
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            with pytest.raises(PayloadError):
                tx.complete({1, 2})
            tx.complete("better")

    job, _ = run_one(tq, drain, handler)
    assert job.result == "better"


def test_jobs_enqueued_through_it_are_in_the_same_commit(tq: TaskQ, drain: Drain) -> None:
    @tq.task(name="next")
    def following() -> None: ...

    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.complete(following.using(connection=tx.connection, delay=3600).enqueue().job_id)

    job, _ = run_one(tq, drain, handler)
    assert isinstance(job.result, int)
    assert tq.get(job.result).status == "queued"


def test_a_lost_fence_rolls_the_rows_back(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, effects: Callable[[], list[int]]
) -> None:
    @tq.task(queue="q")
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into effects values (1)")
            gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work(slots=1)
    gate.wait()
    with sql.conn.transaction():
        sql.run_out(job_id)
        sql.take_back(limit=10)
        sql.run("update taskq.ready set scheduled_at = scheduled_at + interval '1 hour'")
    gate.open.set()
    failed = worker.wait_for(JobEnded)
    assert failed.verdict is not None
    assert worker.stop() == 0
    assert effects() == []
    assert sql.job(job_id)["status"] == "queued"


def test_a_beat_during_the_commit_is_no_loss(
    tq: TaskQ, work: Work, sql: Contract, connect: Callable[[], Connection]
) -> None:
    """A trigger holds the COMMIT up, with the row locked, for several beats."""
    held = threading.Event()

    @tq.task(lease=0.6)
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("insert into effects values (1)")
        held.set()

    sql.run(
        "create function hold_up() returns trigger language plpgsql as "
        "$$ begin perform pg_advisory_xact_lock(42); return null; end $$"
    )
    sql.run(
        "create constraint trigger hold_up after insert on effects deferrable initially deferred "
        "for each row execute function hold_up()"
    )
    blocker = connect()
    blocker.execute("select pg_advisory_lock(42)")
    job_id = handler.enqueue().job_id
    worker = work(slots=1)
    try:
        eventually(
            lambda: sql.value(
                "select count(*) from pg_locks where locktype = 'advisory' and not granted and objid = 42"
            ),
            "the commit is held up",
        )
        expires = sql.value("select lease_expires_at from taskq.running where id = %s", job_id)
        eventually(lambda: sql.value("select taskq.clock() > %s", expires), "the lease is over")
        assert not held.is_set()
    finally:
        blocker.execute("select pg_advisory_unlock(42)")
    assert held.wait(PATIENCE)
    assert worker.stop() == 0
    sql.run("drop function hold_up cascade")
    assert sql.job(job_id)["status"] == "succeeded"
    assert not worker.of(LeaseWasLost)


def test_more_handlers_than_connections_wait_for_one(tq: TaskQ, drain: Drain) -> None:
    @tq.task
    def handler(ctx: JobContext, number: int) -> None:
        with ctx.transaction() as tx:
            tx.execute("select pg_backend_pid()")
            tx.complete(number)

    results = tq.enqueue_many(handler.job(number=number) for number in range(40))
    assert drain(slots=8, transactions=2).code == 0
    assert [tq.get(result).result for result in results] == list(range(40))


@pytest.mark.parametrize("state", ["running", "settled", "lost"])
def test_after_a_link_that_broke_during_commit_the_database_is_asked(
    tq: TaskQ, drain: Drain, sql: Contract, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """The answer to the COMMIT is lost: it arrived (settled), or it did not (running, lost)."""
    from taskq_sync.db.session import BoundedConnection

    commit = BoundedConnection.commit

    def broken(self: BoundedConnection) -> None:
        if state == "settled":
            commit(self)
        self.pgconn.finish()
        if state == "lost":
            with sql.conn.transaction():
                sql.run_out(job_id)
                sql.take_back(limit=10)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    caught: list[BaseException] = []

    @tq.task(queue="q", backoff=3600)
    def handler(ctx: JobContext) -> str:
        monkeypatch.setattr(BoundedConnection, "commit", broken)
        try:
            with ctx.transaction() as tx:
                tx.complete("by transaction")
        except Exception as error:
            caught.append(error)
        finally:
            monkeypatch.setattr(BoundedConnection, "commit", commit)
        return "by return"

    job_id = handler.enqueue().job_id
    worker = drain(slots=1, max_jobs=1)
    assert not worker.of(VerdictRefused)
    job = sql.job(job_id)
    if state == "settled":
        assert (job["status"], job["result"], caught) == ("succeeded", "by transaction", [])
    elif state == "running":
        assert (job["status"], job["failure_count"]) == ("queued", 1)
        [attempt] = sql.job_history(job_id=job_id)
        assert attempt["error"].startswith("commit_unknown")
        assert [type(error).__name__ for error in caught] == ["OutcomeUnknown"]
    else:
        assert (job["status"], job["expiry_streak"]) == ("queued", 1)
        assert [type(error) for error in caught] == [LeaseLost]
