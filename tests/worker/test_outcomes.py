"""What becomes of a job after each thing that a handler can return or raise."""

# Scenarios B59, B60, B61, B63, B64, B66, B68.

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
from collections.abc import Callable
from datetime import timedelta

import psycopg
import psycopg.errors
import pytest
import sqlalchemy
from sqlalchemy import orm

from kit.contract import Contract
from kit.workers import WorkerThread
from taskq_sync import Cancel, Complete, JobContext, NonRetryable, Retry, Snooze, TaskQ, errors
from taskq_sync.model import Job
from taskq_sync.worker.events import JobFailed, PartDied, StateChanged

Drain = Callable[..., WorkerThread]


class OwnBase(BaseException):
    pass


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Float64(float):
    """A number as libraries for arrays have them."""


def named_with_nul() -> Exception:
    """An exception whose type, message and notes hold what PostgreSQL cannot."""
    error = type("Odd", (Exception,), {"__qualname__": "Odd\x00Error"})("bad\x00byte")
    error.__notes__ = ["noted\x00here"]
    return error


def detached_row() -> object:
    """A row of an ORM whose session is closed: to look at it raises."""

    class Base(orm.DeclarativeBase):
        pass

    class Customer(Base):
        __tablename__ = "customers"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
        name: orm.Mapped[str]

    engine = sqlalchemy.create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        row = Customer(id=1, name="Ann")
        session.add(row)
        session.commit()  # and the attributes are to be loaded anew
    engine.dispose()
    return row


def ended(
    tq: TaskQ, drain: Drain, answer: object = None, raises: BaseException | None = None, **task: object
) -> Job:
    """Run one job whose handler returns *answer* or raises, and return the job after it."""

    @tq.task(name="t", **task)
    def handler() -> object:
        if raises is not None:
            raise raises
        return answer

    job_id = handler.enqueue().job_id
    assert drain().code == 0
    return tq.get(job_id)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, None),
        ({"rows": 7}, {"rows": 7}),
        (Complete(), None),
        (Complete({"rows": 7}), {"rows": 7}),
        ([1, "zwei", 3.5, None, True], [1, "zwei", 3.5, None, True]),
        (0, 0),
        (False, False),
        ("", ""),
        (("a", "tuple"), ["a", "tuple"]),
        (-0.0, 0.0),
        (Float64(2.5), 2.5),
        ({"id": 2**63 + 1}, {"id": 2**63 + 1}),
    ],
)
def test_a_return_value_completes_the_job(tq: TaskQ, drain: Drain, answer: object, result: object) -> None:
    job = ended(tq, drain, answer)
    assert (job.status, job.outcome, job.result) == ("succeeded", "success", result)


def test_each_of_many_that_end_at_once_ends_in_its_own_way(tq: TaskQ, drain: Drain) -> None:
    """Those that are done without a result are settled by a call of their own, the others by another."""

    @tq.task(name="t")
    def handler(number: int) -> object:
        if number % 10 == 1:
            raise NonRetryable(f"no {number}")
        return number if number % 10 == 2 else None

    ids = [handler.enqueue(number).job_id for number in range(300)]
    assert drain().code == 0

    for number, job in enumerate(map(tq.get, ids)):
        error = (job.error or "").splitlines()[-1:]
        assert (job.status, job.result) == {
            1: ("failed", None),
            2: ("succeeded", number),
        }.get(number % 10, ("succeeded", None))
        assert [f"no {number}" in line for line in error] == ([True] if number % 10 == 1 else [])


@pytest.mark.parametrize("how", ["answer", "raises"])
def test_snooze_runs_the_job_later_without_cost(tq: TaskQ, drain: Drain, how: str) -> None:
    job = ended(tq, drain, **{how: Snooze(3600, progress={"page": 3}, reason="quota")})
    assert (job.status, job.failure_count, job.snooze_count) == ("queued", 0, 1)
    assert job.progress == {"page": 3}
    assert job.scheduled_at is not None
    assert job.scheduled_at - job.created_at > timedelta(minutes=59)


@pytest.mark.parametrize("how", ["answer", "raises"])
def test_cancel_ends_the_job(tq: TaskQ, drain: Drain, how: str) -> None:
    job = ended(tq, drain, **{how: Cancel("the user left")})
    assert (job.status, job.outcome, job.reason) == ("cancelled", "cancelled", "the user left")


@pytest.mark.parametrize("how", ["answer", "raises"])
def test_retry_is_a_failure_with_a_pause_of_its_own(tq: TaskQ, drain: Drain, how: str) -> None:
    job = ended(tq, drain, **{how: Retry(after=7200, error="try later", progress=[1])})
    assert (job.status, job.failure_count, job.progress) == ("queued", 1, [1])
    assert job.scheduled_at is not None
    assert timedelta(minutes=119) < job.scheduled_at - job.created_at < timedelta(minutes=121)
    with tq.database.connection() as session:
        [attempt] = tq.jobs.history(session, job.id)
    assert attempt.error == "try later"


@pytest.mark.parametrize("how", ["answer", "raises"])
def test_non_retryable_ends_the_job_as_failed(tq: TaskQ, drain: Drain, how: str) -> None:
    job = ended(tq, drain, **{how: NonRetryable("no such user", progress=9)})
    assert (job.status, job.outcome, job.error, job.progress) == (
        "failed",
        "non_retryable",
        "no such user",
        9,
    )


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        SystemExit(0),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(),
        OwnBase("odd"),
        MemoryError(),
        RecursionError(),
        # B68: what the library's own loops use
        TimeoutError(),
        concurrent.futures.TimeoutError(),
        queue.Empty(),
        InterruptedError(),
        psycopg.OperationalError("the connection is lost"),
        psycopg.errors.UniqueViolation("duplicate"),
        errors.TaskQError("own"),
        errors.DatabaseUnavailable("own"),
        errors.OutcomeUnknown("own"),
        errors.LeaseLost("own"),
        errors.JobCancelled("own"),
        errors.JobTimeout("own"),
        errors.PayloadError("own"),
        errors.BrokenInvariant("own"),
        errors.UnknownTask("own"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_exception_is_a_failure_of_the_handler(tq: TaskQ, drain: Drain, error: BaseException) -> None:
    """B66, B68: nothing that a handler raises means anything to the worker."""
    job = ended(tq, drain, raises=error)
    assert (job.status, job.failure_count) == ("queued", 1)
    with tq.database.connection() as session:
        [attempt] = tq.jobs.history(session, job.id)
    assert attempt.error is not None
    assert type(error).__name__ in attempt.error.partition("\n")[0]
    assert "test_outcomes.py" in attempt.error


def test_slots_survive_everything_and_go_on(tq: TaskQ, drain: Drain) -> None:
    """B66: 40 jobs that raise, then 40 that do not, on 4 slots."""
    kinds = [
        SystemExit(0),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        OwnBase(),
        StopIteration(),
        Hostile(),
    ]

    @tq.task(max_attempts=1)
    def handler(number: int) -> None:
        if number < 40:
            raise kinds[number % len(kinds)]

    results = tq.enqueue_many(handler.job(number=number) for number in range(80))
    worker = drain(slots=4)
    assert worker.code == 0
    assert not worker.of(PartDied)
    statuses = [tq.get(result).status for result in results]
    assert statuses == ["failed"] * 40 + ["succeeded"] * 40


def test_the_last_failure_ends_the_job(tq: TaskQ, drain: Drain) -> None:
    job = ended(tq, drain, raises=ValueError("bad"), max_attempts=1)
    assert (job.status, job.outcome) == ("failed", "retry_exhausted")
    assert job.error is not None
    assert job.error.startswith("ValueError: bad\n")
    assert "test_outcomes.py" in job.error


def test_the_policy_of_the_task_decides(tq: TaskQ, drain: Drain) -> None:
    assert ended(tq, drain, raises=KeyError("x"), give_up_on=KeyError).outcome == "non_retryable"


def test_retry_after_of_the_task_replaces_the_backoff(tq: TaskQ, drain: Drain) -> None:
    job = ended(tq, drain, raises=KeyError("x"), retry_after=lambda error: 7200)
    assert job.scheduled_at is not None
    assert job.scheduled_at - job.created_at > timedelta(minutes=119)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("bad\x00byte"), "bad\\x00byte"),
        (OSError(2, "no", b"caf\xe9.txt".decode("utf-8", "surrogateescape")), "\\udce9"),
        (Hostile(), "its __str__ raised RuntimeError"),
        (ValueError("x" * 5_000_000), "ValueError: xxx"),
        (RecursionError("x" * 5_000_000 + "the end"), "the end"),
        (named_with_nul(), "Odd\\x00Error: bad\\x00byte"),
    ],
    ids=["NUL", "surrogate", "hostile", "5 MB", "5 MB of recursion", "NUL in the name"],
)
def test_the_error_is_stored_in_any_case(tq: TaskQ, drain: Drain, error: BaseException, shown: str) -> None:
    """B59, B61, B63, B64."""
    job = ended(tq, drain, raises=error, max_attempts=1)
    assert job.error is not None
    assert shown in job.error
    assert len(job.error.encode()) <= 8192


def recursive() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({1, 2}, "set"),
        ("x" * 1_000_000, "1000002 bytes, the cap is 8192"),
        ("x" * 30_000_000, "30000002 bytes, the cap is 8192"),
        (float("nan"), "nan"),
        ([float("inf")], "$[0]"),
        ([0.0, {"prices": [1e308 * 10]}], "inf is no JSON value at $[1].prices[0]"),
        ({"mean": Float64("nan")}, "nan is no JSON value at $.mean"),
        ("\udcff", "\\udcff"),
        ("ok\x00", "\\x00"),
        (object(), "object"),
        (Odd(), "Odd"),
        ((n for n in range(3)), "generator"),
        (recursive(), ""),
        ({1: "a"}, "key"),
        (detached_row(), "Customer"),
    ],
    ids=[
        "set",
        "1 MB",
        "30 MB",
        "nan",
        "inf",
        "overflow",
        "nan of a library",
        "surrogate",
        "NUL",
        "object",
        "odd",
        "generator",
        "recursive",
        "int key",
        "detached row",
    ],
)
def test_a_result_that_cannot_be_stored_ends_the_job_once(
    tq: TaskQ, drain: Drain, answer: object, said: str
) -> None:
    """B59, B60, B61, B63, B64: the work is done, so it is not done again."""
    job = ended(tq, drain, answer)
    assert (job.status, job.outcome, job.attempt_count) == ("failed", "non_retryable", 1)
    assert job.error is not None
    assert job.error.startswith("invalid_result: ")
    assert said in job.error


@pytest.mark.parametrize("answer", [{1, 2}, "x" * 1_000_000, Complete(object())])
def test_a_task_that_discards_results_succeeds_without_it(tq: TaskQ, drain: Drain, answer: object) -> None:
    job = ended(tq, drain, answer, result="discard")
    assert (job.status, job.result) == ("succeeded", None)


def test_a_result_that_can_be_stored_is_stored_also_by_a_task_that_discards(tq: TaskQ, drain: Drain) -> None:
    assert ended(tq, drain, {"rows": 7}, result="discard").result == {"rows": 7}


def test_follow_ups_are_refused(tq: TaskQ, drain: Drain) -> None:
    job = ended(tq, drain, Complete(1, followups=["next"]))
    assert (job.status, job.outcome) == ("failed", "non_retryable")
    assert job.error is not None
    assert job.error.startswith("followup_rejected")


@pytest.mark.parametrize(
    "outcome",
    [Snooze(1, progress={1, 2}), Retry(progress="x" * 3000), NonRetryable("bad", progress=float("nan"))],
    ids=["set", "3 KB", "nan"],
)
def test_progress_that_cannot_be_stored_ends_the_job(tq: TaskQ, drain: Drain, outcome: BaseException) -> None:
    job = ended(tq, drain, outcome)
    assert (job.status, job.outcome) == ("failed", "non_retryable")
    assert job.error is not None
    assert job.error.startswith("invalid_progress: ")


def test_a_snooze_beyond_what_the_database_takes_is_a_failure(tq: TaskQ, drain: Drain) -> None:
    job = ended(tq, drain, Snooze(timedelta(days=400)))
    assert (job.status, job.failure_count) == ("queued", 1)


def test_a_retry_beyond_what_the_database_takes_keeps_the_backoff(tq: TaskQ, drain: Drain) -> None:
    job = ended(tq, drain, Retry(timedelta(days=400), error="try later"), backoff=60)
    assert (job.status, job.failure_count) == ("queued", 1)
    assert job.scheduled_at is not None
    assert job.scheduled_at - job.created_at < timedelta(minutes=2)


@pytest.mark.parametrize("where", ["handler", "transaction"])
def test_a_limit_of_the_server_is_no_lost_connection(tq: TaskQ, drain: Drain, where: str) -> None:
    """B64: an error of class 54 is of the driver's class for lost links. It is judged by its state."""

    @tq.task(max_attempts=1)
    def handler(ctx: JobContext) -> None:
        if where == "handler":
            raise psycopg.errors.ProgramLimitExceeded("string too long to represent as jsonb string")
        with ctx.transaction() as tx:
            tx.execute("do $$ begin raise exception 'too long' using errcode = '54000'; end $$")

    after = tq.task(name="after")(lambda: None)
    job_id = handler.enqueue().job_id
    later = after.enqueue().job_id
    worker = drain(slots=1)
    assert worker.code == 0
    assert "degraded" not in [event.after for event in worker.of(StateChanged)]
    job = tq.get(job_id)
    assert (job.outcome, job.attempt_count) == ("retry_exhausted", 1)
    assert job.error is not None
    assert job.error.startswith("psycopg.errors.ProgramLimitExceeded")
    assert tq.get(later).status == "succeeded"


def test_one_odd_verdict_does_not_stop_its_neighbours(tq: TaskQ, drain: Drain) -> None:
    """B59: fifty jobs end in the same batch, one of them in a way that the database refuses."""

    @tq.task
    def handler(number: int) -> object:
        return Snooze(timedelta(days=400)) if number == 25 else number

    results = tq.enqueue_many(handler.job(number=number) for number in range(50))
    assert drain(slots=8).code == 0
    statuses = [tq.get(result).status for result in results]
    assert statuses == ["succeeded"] * 25 + ["queued"] + ["succeeded"] * 24


def test_a_failure_is_reported_once_with_its_error(tq: TaskQ, drain: Drain) -> None:
    @tq.task(max_attempts=1)
    def handler() -> None:
        raise ValueError("bad")

    handler.enqueue()
    [failed] = drain().of(JobFailed)
    assert isinstance(failed.error, ValueError)
    assert failed.text.startswith("ValueError: bad")


def test_the_context_comes_first_where_it_is_wanted(tq: TaskQ, drain: Drain, sql: Contract) -> None:
    seen: list[tuple[int, int, int, object]] = []

    @tq.task
    def handler(ctx: JobContext, number: int) -> None:
        seen.append((ctx.job.job_id, ctx.attempt, ctx.fence, number))

    job_id = handler.enqueue(number=3).job_id
    drain()
    fence = sql.value("select attempt_id from taskq.finished where id = %s", job_id)
    assert seen == [(job_id, 1, fence, 3)]


@pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning"
)  # Python 3.12 warns of fork with threads
def test_a_child_that_a_handler_forks_is_no_second_worker(tq: TaskQ, drain: Drain) -> None:
    """B21: it comes back from the handler, and must neither settle nor go on with the next job."""

    @tq.task
    def handler(number: int) -> int:
        child = os.fork()
        if child == 0:
            raise SystemExit(0)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)

    results = tq.enqueue_many(handler.job(number=number) for number in range(3))
    assert drain().code == 0
    assert [tq.get(result).result for result in results] == [70, 70, 70]
