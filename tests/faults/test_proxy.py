"""The proxy does to a link what it says, at the moment it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from faults.proxy import Proxy
from faults.server import FaultServer
from kit.waiting import eventually

Connection = psycopg.Connection[Any]


@pytest.fixture
def direct(fault_server: FaultServer) -> Iterator[Connection]:
    """A connection that does not go through the proxy, to a database with a table and a function."""
    with fault_server.database() as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table t (n int)")
        conn.execute(
            "create function public.put(n int) returns int language sql as 'insert into t values (n) returning n'"
        )
        yield conn


@pytest.fixture
def proxy(direct: Connection) -> Iterator[Proxy]:
    with Proxy(direct.info.dsn) as made:
        yield made


@pytest.fixture
def conn(proxy: Proxy) -> Iterator[Connection]:
    """A connection through the proxy."""
    with psycopg.connect(proxy.dsn, autocommit=True, application_name="some-part") as conn:
        yield conn


def stored(direct: Connection) -> list[int]:
    return [row[0] for row in direct.execute("select n from t order by 1")]


def wait_for_answer(conn: Connection) -> None:
    def answered() -> bool:
        conn.pgconn.consume_input()
        return not conn.pgconn.is_busy()

    # not by get_result(), which blocks the threads of the proxy too
    eventually(answered, "an answer comes")


def test_passes_everything_on(conn: Connection, proxy: Proxy, direct: Connection) -> None:
    for number in range(10):  # also what psycopg has prepared after the fifth time
        assert conn.execute("select public.put(%s)", (number,)).fetchone() == (number,)
    assert conn.execute("select repeat('x', 1000000)").fetchone() == ("x" * 1000000,)
    assert stored(direct) == list(range(10))
    assert [link.application_name for link in proxy.links("some")] == ["some-part"]


@pytest.mark.parametrize("uses", [0, 10])
def test_cuts_after_a_statement_was_committed(
    conn: Connection, proxy: Proxy, direct: Connection, uses: int
) -> None:
    for _ in range(uses):
        conn.execute("select public.put(%s)", (1,))
    trap = proxy.cut_after("put", skip=1)
    conn.execute("select public.put(%s)", (2,))
    with pytest.raises(psycopg.OperationalError):
        conn.execute("select public.put(%s)", (3,))

    assert trap.sprung
    assert stored(direct) == [1] * uses + [2, 3]


def test_cuts_before_a_statement_arrives(conn: Connection, proxy: Proxy, direct: Connection) -> None:
    trap = proxy.cut_before("put", part="some")
    with pytest.raises(psycopg.OperationalError):
        conn.execute("select public.put(%s)", (1,))

    assert trap.sprung
    assert stored(direct) == []


@pytest.mark.parametrize(("moment", "expected"), [("before", []), ("after", [1])])
def test_cuts_at_a_commit(
    conn: Connection, proxy: Proxy, direct: Connection, moment: str, expected: list[int]
) -> None:
    trap = proxy.cut_after("commit") if moment == "after" else proxy.cut_before("commit")
    with pytest.raises(psycopg.OperationalError), conn.transaction():
        conn.execute("select public.put(%s)", (1,))

    assert trap.sprung
    assert stored(direct) == expected


def test_trap_is_for_one_part(conn: Connection, proxy: Proxy, direct: Connection) -> None:
    trap = proxy.cut_before("put", part="another")
    conn.execute("select public.put(1)")

    assert not trap.sprung
    assert stored(direct) == [1]


def test_refuses_and_accepts_again(conn: Connection, proxy: Proxy) -> None:
    with proxy.refusing():
        with pytest.raises(psycopg.OperationalError):
            conn.execute("select 1")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(proxy.dsn)
    with psycopg.connect(proxy.dsn) as again:
        assert again.execute("select 1").fetchone() == (1,)


def test_holds_and_releases(conn: Connection, proxy: Proxy, direct: Connection) -> None:
    with proxy.holding("some"):
        conn.pgconn.send_query(b"select public.put(1)")
        assert conn.pgconn.flush() == 0
        assert stored(direct) == []
    wait_for_answer(conn)
    assert stored(direct) == [1]
    while conn.pgconn.get_result() is not None:
        pass


def test_delays_both_directions(conn: Connection, proxy: Proxy) -> None:
    proxy.delay = 0.1
    began = time.monotonic()
    conn.execute("select 1")

    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("how", ["black_hole", "half_open"])
def test_tells_nobody_of_a_hole(conn: Connection, proxy: Proxy, direct: Connection, how: str) -> None:
    [link] = proxy.links("some")
    getattr(link, how)()
    conn.pgconn.send_query(b"select public.put(1)")
    conn.pgconn.flush()
    time.sleep(0.2)
    conn.pgconn.consume_input()

    assert conn.pgconn.is_busy()
    assert stored(direct) == []
    link.reset()
    with pytest.raises(psycopg.OperationalError):
        wait_for_answer(conn)
