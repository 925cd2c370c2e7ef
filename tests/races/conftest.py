"""Fixtures of the race tests: sessions in which a call that must not wait, or waits for ever, fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.contract import Connection, own_clocks
from kit.databases import Databases
from races.sessions import Session


@pytest.fixture
def open_session(
    databases: Databases, connect: Callable[..., Connection]
) -> Iterator[Callable[..., Session]]:
    """Open sessions; a statement of one ends after 20 s, and a wait for a lock after *lock_timeout* if given."""
    with ThreadPoolExecutor(32, thread_name_prefix="race") as threads:

        def open_one(*, lock_timeout: str | None = None) -> Session:
            session = Session(connect(), databases.admin, threads)
            session.run("set statement_timeout = '20s'")
            if lock_timeout is not None:
                session.run(f"set lock_timeout = '{lock_timeout}'")
            return session

        yield open_one


@pytest.fixture
def one(open_session: Callable[..., Session]) -> Session:
    return open_session()


@pytest.fixture
def two(open_session: Callable[..., Session]) -> Session:
    return open_session()


@pytest.fixture
def three(open_session: Callable[..., Session]) -> Session:
    return open_session()


@pytest.fixture
def impatient(open_session: Callable[..., Session]) -> Session:
    """A session for calls that must not wait: to wait for a lock is an error.

    But for a moment: commits that notify wait for each other, in all databases of the server.
    """
    return open_session(lock_timeout="2s")


@pytest.fixture
def clocks(connect: Callable[..., Connection]) -> Iterator[None]:
    """Give every session a clock of its own, which `Session.ahead` moves; one test at a time in a database."""
    conn = connect()
    [(shipped,)] = conn.execute("select pg_get_functiondef('taskq.clock()'::regprocedure)").fetchall()
    own_clocks(conn)
    yield
    conn.execute(shipped)
