"""A script of a run is what one can paste into psql: replayed, it leaves the same behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kit.contract import Clock, Connection
from kit.databases import Databases
from model.database import Database, Tables
from model.machine import Model
from model.script import Script, call, literal
from model.watch import Watch


@pytest.mark.own_database
def test_replayed_in_a_new_database_it_leaves_the_same_behind(
    connect: Callable[..., Connection], databases: Databases
) -> None:
    database = Database([connect() for _ in range(3)], connect(), Clock(connect()))
    ran: list[tuple[Script, Tables]] = []

    class Recorded(Model):
        def teardown(self) -> None:
            ran.append((database.script, database.read()))

    run_state_machine_as_test(
        lambda: Recorded(database, Watch(seconds=600)),
        settings=settings(
            max_examples=10, stateful_step_count=40, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip

    script, left = max(ran, key=lambda each: each[0].statements)
    assert script.statements > 40
    with databases.copy() as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        _replay(conn, str(script))
        with psycopg.connect(dsn, autocommit=True) as observer:
            assert Database([], observer, Clock(observer)).read() == left


def _replay(conn: Connection, text: str) -> None:
    for line in text.splitlines():
        if line and not line.startswith("--"):
            try:
                conn.execute(line.encode())
            except psycopg.Error as error:
                if not str(error.sqlstate).startswith("TQ"):
                    raise


@pytest.mark.parametrize(
    "value",
    [
        None, True, 7, -0.5, "it's", "back\\slash", "50 %", ["a", "it's"], [1, 2], timedelta(seconds=0.1),
        timedelta(days=1), timedelta(days=1, seconds=5), timedelta(0),
        datetime(2030, 3, 31, 1, tzinfo=timezone.utc),
    ],
    ids=repr,
)  # fmt: skip
def test_a_literal_is_read_as_the_value(conn: Connection, value: Any) -> None:
    conn.execute("set timezone = 'America/St_Johns'")

    assert conn.execute(f"select {literal(value)}".encode()).fetchone() == (value,)


def test_a_call_names_its_arguments_and_writes_documents_as_json() -> None:
    written = call(
        "enqueue", {"queue": "a", "payload": {"n": "it's"}, "delay": timedelta(days=1), "ordered": False}
    )

    assert written == (
        "select * from taskq.enqueue(p_queue => 'a', p_payload => '{\"n\": \"it''s\"}', "
        "p_delay => interval '1 days', p_ordered => false)"
    )


def test_a_script_says_who_speaks_and_what_was_answered() -> None:
    script = Script()
    script.add("select 1", session="session 0", settings=["timezone = 'UTC'"])
    script.answered([{"status": "created", "job_id": 1}])
    script.add("select 2", session="session 0")
    script.refused("TQ429")
    script.add("select 3", session="session 1")

    assert str(script).splitlines()[1:] == [
        "", "-- session 0", "set timezone = 'UTC';", "select 1;", "--> created | 1", "select 2;", "--> TQ429",
        "", "-- session 1", "select 3;",
    ]  # fmt: skip
