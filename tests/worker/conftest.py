"""Fixtures of the worker's tests: a client, workers in threads, and the SQL functions to look from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kit import isolated
from kit.contract import Connection, Contract
from kit.databases import Databases
from kit.outage import Outages
from kit.workers import Gate, WorkerThread
from taskq_sync import TaskQ


@pytest.fixture
def tq(dsn: str) -> Iterator[TaskQ]:
    """A client of the database of the test, whose tasks the workers run."""
    with TaskQ(dsn) as made:
        yield made


@pytest.fixture
def sql(conn: Connection) -> Contract:
    """The SQL functions."""
    return Contract(conn)


@pytest.fixture
def work(tq: TaskQ, gate: Gate) -> Iterator[Callable[..., WorkerThread]]:
    """Start workers, as `work(slots=2)`. What is still running at the end of the test is stopped, twice."""
    started: list[WorkerThread] = []

    def start(**options: Any) -> WorkerThread:
        made = WorkerThread(tq, **{"slots": 2, **options})
        started.append(made)
        return made.start()

    yield start
    gate.open.set()
    for each in started:
        if each.alive:
            each.worker.stop()
            each.worker.stop()
            each.join()


@pytest.fixture
def drain(tq: TaskQ) -> Callable[..., WorkerThread]:
    """Run what is due, as `drain(slots=2)`, and return the worker after its end."""

    def run(**options: Any) -> WorkerThread:
        made = WorkerThread(tq, **{"slots": 2, "burst": True, **options})
        made.join()
        return made

    return run


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end of the test."""
    made = Gate()
    yield made
    made.open.set()


@pytest.fixture
def outages(databases: Databases, conn: Connection) -> Outages:
    """Ways to take the database away from the library."""
    return Outages(databases.admin, conn)


@pytest.fixture
def isolated_tasks(tq: TaskQ, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of `kit.isolated`; the children of a worker connect to the database of the test."""
    monkeypatch.setenv("TASKQ_DSN", dsn)
    isolated.add_to(tq)


@pytest.fixture
def drain_isolated(drain: Callable[..., WorkerThread]) -> Callable[..., WorkerThread]:
    """Run what is due by a worker that can have child processes."""
    return lambda **options: drain(**{"application": isolated.APPLICATION, "stop_grace": 0.2, **options})


@pytest.fixture
def work_isolated(work: Callable[..., WorkerThread]) -> Callable[..., WorkerThread]:
    """Start workers that can have child processes."""
    return lambda **options: work(**{"application": isolated.APPLICATION, "stop_grace": 0.2, **options})


@pytest.fixture
def enqueue(sql: Contract) -> Callable[..., int]:
    """Enqueue a task by its name, as `enqueue("add", a=1, b=2)`; options of the job begin with an underscore."""

    def run(task: str, **arguments: Any) -> int:
        options = {name[1:]: arguments.pop(name) for name in list(arguments) if name.startswith("_")}
        return sql.new_job(**{"queue": "q", "task": task, "payload": arguments, "backoff": "0 s", **options})

    return run
