"""Fixtures of the tests of hostile input."""

from __future__ import annotations

import pytest

from input.world import World
from kit.contract import Connection, Contract


@pytest.fixture
def sql(conn: Connection) -> Contract:
    """The functions of the schema, called as its owner."""
    return Contract(conn)


@pytest.fixture
def world(conn: Connection) -> World:
    """Jobs in every place, and a session in which trials are made."""
    return World(conn)
