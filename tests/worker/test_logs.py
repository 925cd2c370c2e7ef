"""The log of a worker: what marks the records of a handler, and one traceback for each failure."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kit.contract import Contract
from kit.workers import WorkerThread
from taskq_sync import ConfigError, JobContext, JobLogFilter, TaskQ
from taskq_sync.logs import JsonFormatter
from taskq_sync.worker import Application
from taskq_sync.worker.events import JobFailed, QueuesPaused

Drain = Callable[..., WorkerThread]
Enqueue = Callable[..., int]

#: Stands in a payload and nowhere in a log.
SECRET = "hunter2"


class Kept(logging.Handler):
    """Keeps records, with the marks of the library's filter."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(JobLogFilter())
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, logger: str) -> list[Any]:
        """Return what was logged to *logger*."""
        return [each for each in self.records if each.name == logger]

    def lines(self) -> list[str]:
        """Return all as text."""
        return [logging.Formatter("%(job)s%(message)s").format(each) for each in self.records]


@pytest.fixture
def log() -> Iterator[Kept]:
    """What is logged, from DEBUG on."""
    root, kept = logging.getLogger(), Kept()
    before = root.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    yield kept
    root.removeHandler(kept)
    root.setLevel(before)


def test_every_record_of_a_handler_has_its_job(tq: TaskQ, drain: Drain, log: Kept) -> None:
    @tq.task(name="mail.welcome", queue="mail", backoff=0)
    def handler(number: int) -> None:
        logging.getLogger("shop").info("in %d", number)

    @tq.before_job
    def before(ctx: JobContext) -> None:
        logging.getLogger("shop.hooks").info("before %d", ctx.job.job_id)

    jobs = [handler.enqueue(number=number).job_id for number in range(5)]
    drain()
    records = sorted(log.of("shop"), key=lambda each: each.job_id)
    assert [each.job_id for each in records] == jobs
    assert {(each.job_task, each.job_queue, each.job_attempt) for each in records} == {
        ("mail.welcome", "mail", 1)
    }
    assert len({each.job_fence for each in records}) == 5
    assert [each.getMessage() for each in records] == [f"in {number}" for number in range(5)]
    assert sorted(each.job_id for each in log.of("shop.hooks")) == jobs
    assert f"[job {jobs[0]} mail.welcome attempt 1] in 0" in log.lines()


def test_what_a_worker_says_by_itself_has_no_job(tq: TaskQ, drain: Drain, log: Kept) -> None:
    @tq.task
    def handler() -> None: ...

    handler.enqueue()
    drain(slots=1)
    by_itself = [each for each in log.of("taskq_sync.worker") if "job " not in each.getMessage()]
    assert by_itself
    assert {each.job_id for each in by_itself} == {None}


def test_what_a_worker_says_of_a_job_has_its_fields_and_names_it_once(
    tq: TaskQ, drain: Drain, log: Kept
) -> None:
    @tq.task(name="mail.welcome", max_attempts=1)
    def handler() -> None:
        raise ValueError("no such user")

    job_id = handler.enqueue().job_id
    drain()
    [record] = [each for each in log.of("taskq_sync.worker") if each.levelno == logging.WARNING]
    assert (record.job_id, record.job_task, record.job) == (job_id, "mail.welcome", "")
    [line] = [each for each in log.lines() if "no such user" in each]
    assert line.startswith(
        f"job {job_id} (mail.welcome, attempt 1) failed (1 of 1): ValueError: no such user\nTrace"
    )


def test_a_failure_has_one_traceback_without_frames_of_the_library(
    tq: TaskQ, drain: Drain, log: Kept, sql: Contract
) -> None:
    def find() -> None:
        raise ValueError("no such user")

    @tq.task(max_attempts=1, interrupt=True)
    def handler() -> None:
        find()

    @tq.around_job
    def around(ctx: JobContext) -> Iterator[None]:
        yield

    job_id = handler.enqueue().job_id
    drain()
    text = "\n".join(log.lines())
    assert text.count("Traceback") == 1
    assert "in handler" in text
    assert "in find" in text
    assert "taskq_sync/worker/" not in text
    assert "taskq_sync/worker/" not in sql.job(job_id)["error"]


@pytest.mark.usefixtures("isolated_tasks")
def test_a_failure_in_a_child_process_has_one_traceback_too(
    enqueue: Enqueue, drain_isolated: Drain, log: Kept
) -> None:
    job_id = enqueue("fail", message="of all things", _max_attempts=1)
    drain_isolated()
    text = "\n".join(log.lines())
    assert text.count("Traceback") == 1
    assert "in fail" in text
    assert "taskq_sync/worker/" not in text
    [record] = [each for each in log.of("taskq_sync.worker") if "of all things" in each.getMessage()]
    assert record.job_id == job_id
    line = json.loads(JsonFormatter().format(record))
    said = f"job {job_id} (fail, attempt 1) failed (1 of 1): kit.isolated.Unsuitable: of all things"
    assert line["message"] == said
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert "in fail" in line["exception"]


def test_a_failure_says_how_much_of_the_budget_is_spent(tq: TaskQ, drain: Drain, log: Kept) -> None:
    @tq.task(name="t", max_attempts=2, backoff=0, give_up_on=KeyError)
    def handler(last: bool) -> None:
        raise KeyError("k") if last else ValueError("v")

    handler.enqueue(last=False)
    drain(slots=1)
    handler.enqueue(last=True)
    drain(slots=1)
    said = [each.getMessage().partition(") ")[2] for each in log.records if each.levelno == logging.WARNING]
    assert said == [
        "failed (1 of 2): ValueError: v",
        "failed (2 of 2): ValueError: v",
        "failed (1 of 2, not to be tried again): KeyError: 'k'",
    ]


def test_a_queue_that_is_paused_and_resumed_is_told_by_name(
    tq: TaskQ, work: Callable[..., WorkerThread], log: Kept, sql: Contract
) -> None:
    @tq.task(queue="mail")
    def handler() -> None: ...

    sql.pause_queue(queue="mail", actor="test")
    worker = work(announce_every=0.05, poll_interval=0.05)
    worker.wait_for(QueuesPaused)
    sql.resume_queue(queue="mail", actor="test")
    worker.wait_for(QueuesPaused, lambda event: event.resumed)
    lines = log.lines()
    assert "queue mail is paused" in lines
    assert "queue mail is resumed" in lines


def test_the_log_is_the_first_observer(tq: TaskQ, drain: Drain, log: Kept) -> None:
    seen: list[int] = []
    tq.on_worker_start(
        lambda worker: worker.events.subscribe(JobFailed, lambda event: seen.append(len(log.records)))
    )

    @tq.task(max_attempts=1)
    def handler() -> None:
        raise ValueError("no such user")

    handler.enqueue()
    drain()
    [before] = seen
    assert "no such user" in log.records[before - 1].getMessage()


def test_no_payload_and_no_result_is_logged(tq: TaskQ, drain: Drain, log: Kept, enqueue: Enqueue) -> None:
    @tq.task(queue="q", name="echo", max_attempts=1)
    def echo(text: str, fail: bool = False) -> str:
        if fail:
            raise ValueError("it is wrong")
        return text

    echo.enqueue(text=SECRET)
    echo.enqueue(text=SECRET, fail=True)
    enqueue("unknown", text=SECRET)
    drain()
    assert log.records
    for record in log.records:
        assert SECRET not in str(vars(record))


def test_the_library_has_no_handler_that_writes() -> None:
    kinds = [type(each) for each in logging.getLogger("taskq_sync").handlers]
    assert kinds == [logging.NullHandler]


def test_children_know_two_forms() -> None:
    with pytest.raises(ConfigError, match="log_format must be text or json, it is 'xml'"):
        Application(app="app:tq", log_format="xml")
