"""An argument may bring a collation along, from a column or by COLLATE: it decides nothing in a function."""

# Scenario B77.

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from input.functions import Function
from input.world import World
from kit.contract import Clock, Connection

pytestmark = pytest.mark.own_database

#: One that takes a letter and its capital for the same, and one that is common in columns.
COLLATIONS = {
    "same in capitals": "create collation odd (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "by bytes": "create collation odd (locale = 'C')",
}


@pytest.fixture(params=COLLATIONS, ids=lambda name: name)
def collation(request: pytest.FixtureRequest, conn: Connection, connect: Callable[..., Connection]) -> str:
    """A clause that gives a text a collation; the clock stands."""
    try:
        conn.execute(COLLATIONS[request.param])
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("the server knows no ICU")
    Clock(connect())
    return "collate odd"


def _answers(
    world: World, function: Function, collation: str, change: Callable[[str], str]
) -> list[str] | str:
    """Return what the function says to its good arguments with all texts changed, or the SQLSTATE."""
    types = {each.name: each.type for each in function.parameters}
    optional = {name: world.good[name] for name in types if name in world.good}
    optional |= {
        name: value
        for name, value in {"p_unique_key": "u", "p_concurrency_key": "k", "p_status": "running"}.items()
        if name in types
    }
    arguments = {
        name: value if types[name] not in ("text", "text[]") or name == "p_status" else change(value)
        for name, value in optional.items()
    }
    with world.trial():
        world.sql.run("alter sequence taskq.jobs_id_seq restart with 1000")
        world.sql.run("alter sequence taskq.fence restart with 5000")
        world.sql.run("select setseed(0)")  # of the jitter
        try:
            rows = world.conn.execute(function.call(arguments, collation=collation), arguments).fetchall()
        except psycopg.Error as error:
            return f"{error.sqlstate}: {error.diag.message_primary}"
        if collation:
            world.live_on()
    return [row[0] for row in rows]


def test_no_collation_changes_an_answer(world: World, collation: str) -> None:
    for function in world.functions.values():
        if not any(each.type in ("text", "text[]") for each in function.parameters):
            continue
        for change in (str.lower, str.upper):
            usual = _answers(world, function, "", change)
            assert _answers(world, function, collation, change) == usual, function.name
