"""Hooks: their order, their threads, and what one that raises means."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import attrs
import pytest

from kit import hooked
from kit.contract import Contract
from kit.waiting import PATIENCE, eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import (
    AttemptEnd,
    Cancel,
    Complete,
    HookError,
    JobCancelled,
    JobContext,
    JobTimeout,
    NonRetryable,
    Retry,
    Snooze,
    TaskQ,
    WorkerProcess,
)
from taskq_sync.worker import runner
from taskq_sync.worker.events import (
    ChildUnavailable,
    HandlerStuck,
    HookFailed,
    JobEnded,
    JobFailed,
    JobStarted,
    StartRefused,
    WorkerEnded,
    WorkerStarted,
)

Drain = Callable[..., WorkerThread]
Work = Callable[..., WorkerThread]
Enqueue = Callable[..., int]


class Steps(list[Any]):
    """What has happened, in order."""

    def around(self, name: str) -> Callable[[JobContext], Iterator[None]]:
        """A hook that says when it is entered and left, and what it has seen."""

        def hook(ctx: JobContext) -> Iterator[None]:
            self.append(f"enter {name}")
            try:
                yield
            except BaseException as error:
                self.append(f"{name} sees {type(error).__name__}")
                raise
            finally:
                self.append(f"leave {name}")

        return hook

    def add_all(self, tq: TaskQ) -> None:
        """Register two hooks of each kind."""
        for name in ("1", "2"):
            tq.on_worker_start(lambda worker, name=name: self.append(f"start {name}"))  # type: ignore[misc]
            tq.on_worker_stop(lambda worker, name=name: self.append(f"stop {name}"))  # type: ignore[misc]
            tq.around_job(self.around(name))
            tq.before_job(lambda ctx, name=name: self.append(f"before {name}"))  # type: ignore[misc]
            tq.on_failure(lambda ctx, error, name=name: self.append(f"failure {name}"))  # type: ignore[misc]
            tq.after_job(lambda ctx, end, name=name: self.append(f"after {name}"))  # type: ignore[misc]


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def ends(tq: TaskQ) -> list[AttemptEnd]:
    """What `after_job` was given."""
    seen: list[AttemptEnd] = []
    tq.after_job(lambda ctx, end: seen.append(end))
    return seen


@pytest.fixture
def errors(tq: TaskQ) -> list[BaseException]:
    """What `on_failure` was given."""
    seen: list[BaseException] = []
    tq.on_failure(lambda ctx, error: seen.append(error))
    return seen


# Order


def test_the_order_around_a_handler_that_returns(tq: TaskQ, drain: Drain, steps: Steps) -> None:
    steps.add_all(tq)

    @tq.task
    def handler() -> None:
        steps.append("handler")

    handler.enqueue()
    assert drain().code == 0
    assert steps == [
        *("start 1", "start 2", "enter 1", "enter 2", "before 1", "before 2"),
        "handler",
        *("after 2", "after 1", "leave 2", "leave 1", "stop 2", "stop 1"),
    ]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
def test_the_order_around_a_handler_that_raises(
    error: type[BaseException], tq: TaskQ, drain: Drain, steps: Steps, sql: Contract
) -> None:
    steps.add_all(tq)

    @tq.task(max_attempts=1)
    def handler() -> None:
        steps.append("handler")
        raise error("boom")

    job_id = handler.enqueue().job_id
    assert drain().code == 0
    name = error.__name__
    assert steps[6:-2] == [
        *("handler", "failure 2", "failure 1", "after 2", "after 1"),
        *(f"2 sees {name}", "leave 2", f"1 sees {name}", "leave 1"),
    ]
    assert sql.job(job_id)["error"].startswith(f"{name}: boom")


def test_observers_see_a_job_before_its_hooks_begin_and_after_they_have_ended(
    tq: TaskQ, drain: Drain, steps: Steps
) -> None:
    """The log is the first observer, so the failure is logged before a hook hears of it."""

    @tq.on_worker_start
    def subscribe(worker: WorkerProcess) -> None:
        for kind in (WorkerStarted, JobStarted, JobFailed, JobEnded):
            worker.events.subscribe(kind, lambda event: steps.append(type(event).__name__))

    steps.add_all(tq)

    @tq.task(max_attempts=1)
    def handler() -> None:
        raise ValueError

    handler.enqueue()
    worker = drain()
    assert steps[:4] == ["start 1", "start 2", "WorkerStarted", "JobStarted"]
    assert steps.index("JobFailed") + 1 == steps.index("failure 2")
    assert steps.index("JobEnded") == steps.index("leave 1") + 1
    assert isinstance(worker.seen[-1], WorkerEnded)


def test_hooks_run_in_the_thread_of_the_handler_and_of_the_worker(tq: TaskQ, drain: Drain) -> None:
    threads: dict[str, int] = {}

    def note(name: str) -> None:
        threads[name] = threading.get_ident()

    @tq.around_job
    def around(ctx: JobContext) -> Iterator[None]:
        note("enter")
        try:
            yield
        finally:
            note("leave")

    @tq.task(max_attempts=1)
    def handler() -> None:
        note("handler")
        raise ValueError

    tq.before_job(lambda ctx: note("before"))
    tq.after_job(lambda ctx, end: note("after"))
    tq.on_failure(lambda ctx, error: note("failure"))
    tq.on_worker_start(lambda worker: note("start"))
    tq.on_worker_stop(lambda worker: note("stop"))
    handler.enqueue()
    worker = drain()
    assert {threads.pop("start"), threads.pop("stop")} == {worker._thread.ident}
    assert set(threads.values()) == {threads["handler"]}
    assert len(threads) == 6


def test_a_hook_has_the_context_of_the_handler(tq: TaskQ, drain: Drain) -> None:
    seen: list[JobContext] = []
    tq.before_job(seen.append)

    @tq.task
    def handler(ctx: JobContext) -> None:
        seen.append(ctx)

    handler.enqueue()
    drain()
    assert seen[0] is seen[1]


def test_around_may_return_a_context_manager(tq: TaskQ, drain: Drain, steps: Steps, sql: Contract) -> None:
    class Manager:
        def __enter__(self) -> None:
            steps.append("enter")

        def __exit__(self, *exc_info: object) -> bool:
            steps.append(exc_info[0])
            return True  # which changes nothing

    @tq.around_job
    def around(ctx: JobContext) -> AbstractContextManager[None]:
        return Manager()

    @tq.task(max_attempts=1)
    def handler() -> None:
        raise ValueError("boom")

    job_id = handler.enqueue().job_id
    drain()
    assert steps == ["enter", ValueError]
    assert sql.job(job_id)["outcome"] == "retry_exhausted"


def test_around_is_around_a_transaction(
    tq: TaskQ, drain: Drain, steps: Steps, ends: list[AttemptEnd]
) -> None:
    tq.around_job(steps.around("1"))

    @tq.task
    def handler(ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.complete("by the transaction")
        steps.append("committed")

    result = handler.enqueue()
    drain()
    assert steps == ["enter 1", "committed", "leave 1"]
    assert tq.get(result).result == "by the transaction"
    assert [end.verb for end in ends] == ["complete"]


# What they are told


@pytest.mark.parametrize(
    ("outcome", "verb", "cause"),
    [
        (Complete(1), "complete", None),
        (Snooze(60), "snooze", None),
        (Cancel("enough"), "cancel", None),
        (Retry(error="later"), "fail", Retry(error="later")),
        (NonRetryable("never"), "fail", NonRetryable("never")),
    ],
)
@pytest.mark.parametrize("raised", [False, True])
def test_outcomes(
    raised: bool,
    outcome: Any,
    verb: str,
    cause: BaseException | None,
    tq: TaskQ,
    drain: Drain,
    ends: list[AttemptEnd],
    errors: list[BaseException],
) -> None:
    @tq.task(max_attempts=1)
    def handler() -> Any:
        if raised:
            raise outcome
        return outcome

    handler.enqueue()
    drain()
    [end] = ends
    assert (end.verb, end.value, end.error) == (
        verb,
        None if raised else outcome,
        outcome if raised else None,
    )
    assert end.seconds > 0
    assert errors == ([] if cause is None else [cause])


def test_a_plain_value_is_a_success(
    tq: TaskQ, drain: Drain, ends: list[AttemptEnd], errors: list[BaseException]
) -> None:
    @tq.task
    def handler() -> str:
        return "a value"

    handler.enqueue()
    drain()
    assert [(end.verb, end.value, end.error) for end in ends] == [("complete", "a value", None)]
    assert errors == []


def test_a_result_that_cannot_be_stored_is_a_failure(
    tq: TaskQ, drain: Drain, ends: list[AttemptEnd], errors: list[BaseException]
) -> None:
    @tq.task
    def handler() -> object:
        return object()

    handler.enqueue()
    drain()
    assert [end.verb for end in ends] == ["fail"]
    [error] = errors
    assert isinstance(error, NonRetryable)
    assert error.error.startswith("invalid_result: ")


def test_a_cancelled_job_has_not_failed(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, ends: list[AttemptEnd], errors: list[BaseException]
) -> None:
    @tq.task(queue="q", lease=0.6)
    def handler(ctx: JobContext) -> None:
        gate.entered.set()
        while True:
            ctx.raise_if_cancelled()
            time.sleep(0.01)

    job_id = handler.enqueue().job_id
    work()
    assert gate.entered.wait(PATIENCE)
    sql.cancel_job(job_id=job_id)
    eventually(lambda: sql.job(job_id)["status"] == "cancelled", "the job is cancelled")
    assert [end.verb for end in ends] == ["cancel"]
    assert errors == []


def test_an_attempt_that_has_lost_its_job_is_no_success(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, ends: list[AttemptEnd]
) -> None:
    """B08: what has not been settled has no hook that says so."""

    @tq.task(queue="q", lease=0.6)
    def handler(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work(take_back_every=60)
    ctx = gate.wait()
    with sql.conn.transaction():
        sql.run_out(job_id)
        sql.take_back()
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is run again")
    eventually(lambda: ctx._attempt.lost, "the first attempt is known to be lost")  # type: ignore[attr-defined]
    gate.open.set()
    worker.stop()
    assert [end.verb for end in ends] == ["complete", "lost"]


def test_a_job_whose_handler_is_not_run_has_no_hooks(
    tq: TaskQ, enqueue: Enqueue, drain: Drain, steps: Steps
) -> None:
    @tq.task(queue="q", name="needs", payload_grace=0)
    def handler(number: int) -> None: ...

    steps.add_all(tq)
    enqueue("needs")
    enqueue("unknown")
    assert drain(queues=["q"]).code == 0
    assert steps == ["start 1", "start 2", "stop 2", "stop 1"]


# Those that raise


def broken(*arguments: object) -> Any:
    raise ZeroDivisionError("of all things")


def broken_generator(ctx: JobContext) -> Iterator[None]:
    raise ZeroDivisionError("of all things")
    yield


def silent_generator(ctx: JobContext) -> Iterator[None]:
    if ctx is None:
        yield


NAMED = f"{__name__}.broken raised ZeroDivisionError: of all things"


@pytest.mark.parametrize(
    ("kind", "hook", "text"),
    [
        ("before_job", broken, f"before_job hook {NAMED}"),
        ("around_job", broken, f"around_job hook {NAMED}"),
        ("around_job", broken_generator, "broken_generator raised ZeroDivisionError: of all things"),
        ("around_job", silent_generator, "silent_generator raised RuntimeError: generator didn't yield"),
        ("around_job", lambda ctx: 7, "returned int, which is no context manager"),
        ("before_job", sys.exit, "before_job hook sys.exit raised SystemExit"),
    ],
)
def test_before_the_handler_it_fails_the_attempt(
    kind: str,
    hook: Any,
    text: str,
    tq: TaskQ,
    drain: Drain,
    sql: Contract,
    steps: Steps,
    ends: list[AttemptEnd],
    errors: list[BaseException],
) -> None:
    """It is repeated, whatever the task says about exceptions; those entered before are left."""
    tq.around_job(steps.around("1"))
    getattr(tq, kind)(hook)

    @tq.task(give_up_on=Exception, retry_on=(), max_attempts=2, backoff=0)
    def handler() -> None:
        steps.append("handler")

    job_id = handler.enqueue().job_id
    worker = drain()
    assert steps == ["enter 1", "1 sees HookError", "leave 1"] * 2
    job = sql.job(job_id)
    assert job["outcome"] == "retry_exhausted"
    first = job["error"].partition("\n")[0]
    assert first.startswith("taskq_sync.errors.HookError: ")
    assert text in first
    assert [(end.verb, end.error) for end in ends] == [("fail", error) for error in errors]
    assert [type(error) for error in errors] == [HookError] * 2
    assert len(worker.of(JobFailed)) == 2


def test_the_kept_text_of_a_hook_shows_the_hook_and_nothing_of_the_library(
    tq: TaskQ, drain: Drain, sql: Contract
) -> None:
    tq.before_job(broken)

    @tq.task(max_attempts=1)
    def handler() -> None: ...

    job_id = handler.enqueue().job_id
    drain()
    error = sql.job(job_id)["error"]
    assert "in broken" in error
    assert "taskq_sync/worker/" not in error


def test_an_outcome_raised_before_the_handler_is_the_outcome(
    tq: TaskQ, drain: Drain, sql: Contract, steps: Steps, errors: list[BaseException]
) -> None:
    @tq.before_job
    def maintenance(ctx: JobContext) -> None:
        raise Snooze(60, reason="maintenance")

    @tq.task
    def handler() -> None:
        steps.append("handler")

    job_id = handler.enqueue().job_id
    drain()
    assert steps == []
    assert errors == []
    assert [(row["verb"], row["reason"]) for row in sql.job_history(job_id=job_id)] == [
        ("snooze", "maintenance")
    ]


def test_what_ends_an_attempt_means_the_same_before_the_handler(
    tq: TaskQ, drain: Drain, errors: list[BaseException]
) -> None:
    """The task has a say about its time limit, as in the handler."""

    @tq.before_job
    def late(ctx: JobContext) -> None:
        eventually(lambda: ctx.deadline.expired, "the limit passes")
        ctx.raise_if_cancelled()

    @tq.task(timeout=0.05, give_up_on=JobTimeout)
    def handler() -> None: ...

    result = handler.enqueue()
    drain(stop_grace=60)
    assert tq.get(result).outcome == "non_retryable"
    assert [type(error) for error in errors] == [JobTimeout]


@pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning"
)  # Python 3.12 warns of fork with threads
def test_a_child_that_a_hook_forks_does_not_run_the_handler(
    tq: TaskQ, drain: Drain, steps: Steps, tmp_path: Path
) -> None:
    pid = os.getpid()

    @tq.before_job
    def fork(ctx: JobContext) -> None:
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            steps.append(os.waitstatus_to_exitcode(status))

    @tq.task
    def handler() -> None:
        if os.getpid() != pid:
            (tmp_path / "ran").touch()

    handler.enqueue()
    assert drain().code == 0
    assert steps == [70]
    assert not (tmp_path / "ran").exists()


def broken_at_its_end(ctx: JobContext) -> Iterator[None]:
    try:
        yield
    finally:
        raise ZeroDivisionError("of all things")


def endless(ctx: JobContext) -> Iterator[None]:
    yield
    yield


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("kind", "hook"),
    [
        ("after_job", broken),
        ("on_failure", broken),
        ("around_job", broken_at_its_end),
        ("around_job", endless),
        ("after_job", lambda ctx, end: sys.exit(1)),
    ],
)
def test_after_the_handler_it_changes_nothing_and_is_logged_once(
    kind: str,
    hook: Any,
    fails: bool,
    tq: TaskQ,
    drain: Drain,
    sql: Contract,
    steps: Steps,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tq.around_job(steps.around("1"))
    tq.after_job(lambda ctx, end: steps.append(f"after {end.verb}"))
    getattr(tq, kind)(hook)
    tq.after_job(lambda ctx, end: steps.append(f"after {end.verb}"))

    @tq.task(max_attempts=1)
    def handler() -> str:
        if fails:
            raise LookupError("no such user")
        return "done"

    job_id = handler.enqueue().job_id
    worker = drain()
    job = sql.job(job_id)
    if fails:
        assert job["error"].startswith("LookupError: no such user")
        assert "ZeroDivisionError" not in job["error"]
        assert steps == ["enter 1", *["after fail"] * 2, "1 sees LookupError", "leave 1"]
    else:
        assert job["result"] == "done"
        assert steps == ["enter 1", *["after complete"] * 2, "leave 1"]
    reported = worker.of(HookFailed)
    logged = [each for each in caplog.records if " hook " in each.getMessage()]
    # There is no failure to be told of; or the failure that is thrown in ends the generator at its first yield.
    spared = (kind == "on_failure" and not fails) or (hook is endless and fails)
    expected = 0 if spared else 1
    assert (len(reported), len(logged)) == (expected, expected)
    for event, record in zip(reported, logged, strict=True):
        assert event.job is not None
        assert event.hook.startswith(f"{kind} hook {__name__}.")
        assert record.levelno == logging.ERROR
        assert f"job {job_id} " in record.getMessage()
        assert record.exc_info


def test_a_start_hook_that_raises_ends_the_worker_with_1(
    tq: TaskQ, drain: Drain, sql: Contract, steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    steps.add_all(tq)
    tq.on_worker_start(broken)
    tq.on_worker_start(lambda worker: steps.append("start 4"))

    @tq.task
    def handler() -> None:
        steps.append("handler")

    job_id = handler.enqueue().job_id
    worker = drain()
    assert worker.code == 1
    assert steps == ["start 1", "start 2", "stop 2", "stop 1"]
    assert sql.job(job_id)["attempt_count"] == 0
    assert len(worker.of(StartRefused)) == 1
    [record] = [each for each in caplog.records if each.levelno == logging.CRITICAL]
    assert record.getMessage() == f"the worker does not start: on_worker_start hook {NAMED}"


@pytest.mark.parametrize("raised", [Snooze(60), JobCancelled("no job"), SystemExit(0)])
def test_what_would_end_an_attempt_is_just_an_error_of_a_start_hook(
    tq: TaskQ, drain: Drain, steps: Steps, raised: BaseException
) -> None:
    def refuse(worker: WorkerProcess) -> None:
        raise raised

    steps.add_all(tq)
    tq.on_worker_start(refuse)
    worker = drain(queues=["q"])
    assert worker.code == 1
    assert worker.of(StartRefused)[0].error.__cause__ is raised
    assert steps == ["start 1", "start 2", "stop 2", "stop 1"]


def test_a_stop_hook_that_raises_is_logged(
    tq: TaskQ, drain: Drain, steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    steps.add_all(tq)
    tq.on_worker_stop(broken)
    assert drain(queues=["q"]).code == 0
    assert steps == ["start 1", "start 2", "stop 2", "stop 1"]
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == (
        f"on_worker_stop hook {__name__}.broken failed: ZeroDivisionError: of all things"
    )


def test_stop_hooks_run_when_the_database_is_unavailable_at_the_start(steps: Steps) -> None:
    tq = TaskQ("host=127.0.0.1 port=1", timeout=1)
    steps.add_all(tq)
    worker = WorkerThread(tq, queues=["q"])
    assert worker.join() == 69
    assert steps == ["start 1", "start 2", "stop 2", "stop 1"]


# Time limits


def test_an_interrupt_reaches_the_handler_only(tq: TaskQ, drain: Drain, steps: Steps) -> None:
    """The limit passes in a hook before the handler, and it goes on to pass in those behind it."""

    def outlast(ctx: JobContext) -> None:
        eventually(lambda: ctx.deadline.expired, "the limit passes")
        for _ in range(40):  # of the looks whether to interrupt, several come in this time
            time.sleep(0.01)

    @tq.around_job
    def around(ctx: JobContext) -> Iterator[None]:
        outlast(ctx)
        steps.append("enter")
        try:
            yield
        except JobTimeout:
            outlast(ctx)
            steps.append("leave")
            raise

    @tq.after_job
    def after(ctx: JobContext, end: AttemptEnd) -> None:
        outlast(ctx)
        steps.append(f"after {type(end.error).__name__}")

    @tq.task(interrupt=True, timeout=0.1, max_attempts=1)
    def handler() -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pass

    result = handler.enqueue()
    worker = drain(stop_grace=60)
    assert steps == ["enter", "after JobTimeout", "leave"]
    assert worker.of(HookFailed) == []
    error = tq.get(result).error
    assert error is not None
    assert error.startswith("taskq_sync.errors.JobTimeout: ")


def test_a_hook_that_does_not_end_is_a_stuck_thread(tq: TaskQ, work: Work, gate: Gate) -> None:
    @tq.before_job
    def wait(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    @tq.task(queue="q", timeout=0.05)
    def handler() -> None: ...

    handler.enqueue()
    worker = work(stop_grace=0.1)
    assert "in wait" in worker.wait_for(HandlerStuck).stack


# Child processes


@pytest.fixture
def _hooked(tq: TaskQ, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKQ_DSN", dsn)
    monkeypatch.setenv(hooked.STEPS, str(tmp_path / "steps"))
    hooked.add_to(tq)


IN_A_CHILD = ["child_start", "enter", "before", "handler", "after complete", "leave", "child_stop"]


@pytest.mark.usefixtures("_hooked")
def test_hooks_run_in_a_child_process(enqueue: Enqueue, drain: Drain, sql: Contract) -> None:
    """Those of the process once, those of the jobs with each job, and not in the worker."""
    jobs = [enqueue("isolated") for _ in range(2)]
    worker = drain(application=hooked.APPLICATION, slots=1)
    assert worker.code == 0
    [pid] = {sql.job(job_id)["result"] for job_id in jobs}
    seen = hooked.steps()
    assert [name for process, name in seen if process == pid] == [
        IN_A_CHILD[0],
        *IN_A_CHILD[1:-1] * 2,
        IN_A_CHILD[-1],
    ]
    assert [name for process, name in seen if process != pid] == ["worker_start", "worker_stop"]


@pytest.mark.usefixtures("_hooked")
def test_a_failure_in_a_child_process_is_told_there(enqueue: Enqueue, drain: Drain, sql: Contract) -> None:
    job_id = enqueue("isolated", fail=True, _max_attempts=1)
    drain(application=hooked.APPLICATION)
    names = [name for _, name in hooked.steps()]
    assert names[4:-2] == ["handler", "failure LookupError", "after fail", "leave"]
    assert sql.job(job_id)["error"].startswith("LookupError: no such user")


@pytest.mark.usefixtures("_hooked")
def test_hooks_run_with_a_suspect(enqueue: Enqueue, drain: Drain, sql: Contract) -> None:
    job_id = enqueue("suspected")
    sql.take()
    sql.run_out(job_id)
    sql.take_back()
    assert drain(application=hooked.APPLICATION).code == 0
    pid = sql.job(job_id)["result"]
    assert [name for process, name in hooked.steps() if process == pid] == IN_A_CHILD


@pytest.mark.usefixtures("_hooked")
def test_a_child_that_dies_runs_no_more_hooks(enqueue: Enqueue, drain: Drain) -> None:
    enqueue("die", _max_attempts=1)
    assert drain(application=hooked.APPLICATION).code == 0
    names = [name for _, name in hooked.steps()]
    assert names == ["worker_start", "child_start", "enter", "before", "worker_stop"]


@pytest.mark.usefixtures("_hooked")
def test_a_hook_before_the_handler_fails_the_attempt_in_a_child_too(
    enqueue: Enqueue, drain: Drain, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(hooked.FAILING, "before")
    job_id = enqueue("isolated", _max_attempts=1)
    assert drain(application=hooked.APPLICATION).code == 0
    assert sql.job(job_id)["error"].startswith("taskq_sync.errors.HookError: before_job hook kit.hooked.")


@pytest.mark.usefixtures("_hooked")
def test_a_hook_after_the_handler_changes_nothing_in_a_child_and_is_logged_by_it(
    enqueue: Enqueue,
    drain: Drain,
    sql: Contract,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(hooked.FAILING, "leave")
    job_id = enqueue("isolated")
    drain(application=attrs.evolve(hooked.APPLICATION, log_level="INFO"))
    assert sql.job(job_id)["status"] == "succeeded"
    logged = capfd.readouterr().err
    assert logged.count("ValueError: leave is broken\nTraceback") == 1
    assert f"failed after job {job_id} (isolated, attempt 1) had ended" in logged


@pytest.mark.usefixtures("_hooked")
def test_a_start_hook_that_raises_in_a_child_puts_the_job_back(
    enqueue: Enqueue, work: Work, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(hooked.FAILING, "child_start")
    job_id = enqueue("isolated")
    worker = work(application=hooked.APPLICATION)
    assert "on_worker_start hook kit.hooked." in worker.wait_for(ChildUnavailable).reason
    eventually(lambda: sql.job(job_id)["status"] == "queued", "the job is put back")
    assert sql.job(job_id)["failure_count"] == 0


# Cost


def test_without_hooks_of_jobs_nothing_is_made_for_them(
    tq: TaskQ, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(runner, "JobHooks", lambda *arguments: made.append(arguments))
    tq.on_worker_start(lambda worker: None)

    @tq.task
    def handler() -> None: ...

    result = handler.enqueue()
    drain()
    assert tq.get(result).status == "succeeded"
    assert made == []


def test_around_may_be_a_manager_of_the_standard_library(tq: TaskQ, drain: Drain) -> None:
    tq.around_job(nullcontext)

    @tq.task
    def handler() -> None: ...

    result = handler.enqueue()
    drain()
    assert tq.get(result).status == "succeeded"
