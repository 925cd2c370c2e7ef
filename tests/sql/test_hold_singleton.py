"""The lock by which only one of those with the same name runs at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.contract import Connection, Contract, refused
from kit.waiting import eventually


def held(sql: Contract, name: str = "n") -> bool:
    return bool(sql.hold_singleton(name=name)[0]["hold_singleton"])


def test_one_session_has_it(sql: Contract, other: Contract) -> None:
    assert held(sql)
    assert held(sql)
    assert not held(other)


def test_names_do_not_exclude_each_other(sql: Contract, other: Contract) -> None:
    assert held(sql, "a")
    assert held(other, "b")


def test_it_ends_with_the_session(sql: Contract, connect: Callable[..., Connection]) -> None:
    first = connect()
    assert held(Contract(first))
    assert not held(sql)
    first.close()
    eventually(lambda: held(sql), "the lock is free")


def test_it_outlasts_the_transaction(sql: Contract, other: Contract) -> None:
    with sql.conn.transaction():
        assert held(sql)
    assert not held(other)


@pytest.mark.parametrize("name", [None, "", "n" * 256])
def test_refuses_a_bad_name(sql: Contract, name: str | None) -> None:
    with refused("TQ422", "p_name must be 1 to 255 bytes"):
        sql.hold_singleton(name=name)
