"""Fixtures of the contract tests: the functions of the schema, a clock that stands, and what was notified."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kit.contract import Clock, Connection, Contract
from kit.waiting import eventually


@pytest.fixture
def sql(conn: Connection) -> Contract:
    """The functions of the schema, called as its owner."""
    return Contract(conn)


@pytest.fixture
def other(connect: Callable[..., Connection]) -> Contract:
    """The functions through a second session, whose statements never wait for long."""
    session = Contract(connect())
    session.run("set statement_timeout = '10s'")
    return session


@pytest.fixture
def clock(connect: Callable[..., Connection]) -> Iterator[Clock]:
    """The clock of the schema, standing at the beginning of 2030 until the test moves it."""
    conn = connect()
    [(shipped,)] = conn.execute("select pg_get_functiondef('taskq.clock()'::regprocedure)").fetchall()
    yield Clock(conn)
    conn.execute(shipped)


@pytest.fixture
def heard(sql: Contract) -> Iterator[Callable[[], list[str]]]:
    """Return the queues that were notified since the last call, through the session of `sql`."""
    payloads: list[str] = []

    def collect() -> list[str]:
        # what this session notifies arrives in order, so nothing can come before the mark and after the answer
        sql.run("select pg_notify('taskq.wake', 'the mark')")
        eventually(lambda: sql.run("select 1") and "the mark" in payloads, "the mark arrives")
        taken = payloads[: payloads.index("the mark")]
        payloads.clear()
        return taken

    sql.conn.add_notify_handler(lambda notify: payloads.append(notify.payload))
    sql.run('listen "taskq.wake"')
    yield collect
    sql.run("unlisten *")
