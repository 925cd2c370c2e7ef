"""Fixtures of all tests: see `kit/servers.py` for the choice of the server.

Every test that touches the database gets it empty, and must leave no thread, no open session and no finding of
`check_integrity()` behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest

from kit import flavours, waiting
from kit.databases import Databases, clear
from kit.roles import Role, low_role
from kit.servers import Run

Connection = psycopg.Connection[tuple[Any, ...]]

# A database has no stable speed; an example that is slow once is no finding.
hypothesis.settings.register_profile("taskq", deadline=None, print_blob=True)
hypothesis.settings.load_profile("taskq")

_run = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    flavours.install()
    config.stash[_run] = Run()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_run].close()


@pytest.fixture(autouse=True)
def _no_leaked_threads() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    started = [each for each in threading.enumerate() if each not in before]
    for thread in started:
        thread.join(5.0)  # one that has been told to end may do so
    leaked = [each.name for each in started if each.is_alive()]
    assert not leaked, f"the test leaves threads behind: {leaked}"


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """The maker of databases; most tests want `dsn` or `conn`."""
    made = Databases(request.config.stash[_run])
    yield made
    made.close()


@pytest.fixture(scope="session")
def _process_dsn(databases: Databases) -> Iterator[str]:
    with databases.copy() as dsn:
        yield dsn


@pytest.fixture
def dsn(request: pytest.FixtureRequest, databases: Databases) -> Iterator[str]:
    """The DSN of a database with an empty schema `taskq`: the process's, or a new one with `own_database`."""
    with ExitStack() as stack:
        if request.node.get_closest_marker("own_database"):
            own = stack.enter_context(databases.copy())
        else:
            own = request.getfixturevalue("_process_dsn")
        yield own
        _check_and_clear(databases, own, request.node.get_closest_marker("broken_integrity") is None)


def _check_and_clear(databases: Databases, dsn: str, check: bool) -> None:
    """Fail for what the test has left, after the database is ready for the next one."""
    try:
        waiting.eventually(lambda: not databases.sessions(dsn), "", timeout=3.0)
        left = []
    except AssertionError:
        left = databases.sessions(dsn)
        databases.end_sessions(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        findings = (
            conn.execute("select job_id, problem from taskq.check_integrity()").fetchall() if check else []
        )
        clear(conn)
    assert not left, f"the test leaves sessions behind: {left}"
    assert not findings, f"check_integrity() after the test: {findings}"


@pytest.fixture
def empty_dsn(databases: Databases) -> Iterator[str]:
    """The DSN of a new database with nothing in it."""
    with databases.empty() as dsn:
        yield dsn


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[..., Connection]]:
    """Open connections to the database of the test, autocommit unless told otherwise, closed at its end."""
    with ExitStack() as stack:

        def open_one(**options: Any) -> Connection:
            conn = psycopg.connect(dsn, **{"autocommit": True, **options})
            stack.callback(conn.close)
            return conn

        yield open_one


@pytest.fixture
def conn(connect: Callable[..., Connection]) -> Connection:
    """An autocommit connection to the database of the test, as its owner."""
    return connect()


@pytest.fixture
def wait_until_blocked(databases: Databases) -> Callable[[Connection | int], None]:
    """Wait until a session (by its connection, whose thread is inside a call, or its pid) waits for a lock."""

    def wait(session: Connection | int) -> None:
        pid = session if isinstance(session, int) else session.info.backend_pid
        waiting.wait_until_blocked(databases.admin, pid)

    return wait


@pytest.fixture
def make_role(dsn: str) -> Iterator[Callable[[], Role]]:
    """Make logins without any right in the database of the test."""
    with ExitStack() as stack:
        owner = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        yield lambda: stack.enter_context(low_role(owner, dsn, prefix="taskq_low"))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder of the repository."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def sql_root(checkout: Path) -> Path:
    """The folder of the SQL files in the repository."""
    return checkout / "sql"
