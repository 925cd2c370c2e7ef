"""Looking at the workers that are there."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract

INFO = {"queues": ["b", "a"], "state": "running", "host": "h", "pid": 7, "version": "1", "slots": 8}


def test_returns_what_it_says(sql: Contract) -> None:
    assert sql.columns("workers") == [
        "worker_id",
        "host",
        "pid",
        "version",
        "queues",
        "slots",
        "state",
        "started_at",
        "seen_at",
        "running",
        "stop_requested",
        "info",
    ]


def test_shows_what_a_worker_has_announced(sql: Contract, clock: Clock) -> None:
    started = clock.now
    sql.announce(worker_id="w", info={**INFO, "process": 2, "supervisor": "s"})
    clock.forward(seconds=30)
    sql.announce(worker_id="w", info={**INFO, "process": 2, "supervisor": "s"})

    assert sql.workers() == [
        {
            "worker_id": "w",
            "host": "h",
            "pid": 7,
            "version": "1",
            "queues": ["b", "a"],
            "slots": 8,
            "state": "running",
            "started_at": started,
            "seen_at": clock.now,
            "running": 0,
            "stop_requested": False,
            "info": {"process": 2, "supervisor": "s"},
        }
    ]


def test_lists_them_in_the_order_of_their_starts_or_just_one(sql: Contract, clock: Clock) -> None:
    for worker_id in ("z", "b", "a"):
        sql.announce(worker_id=worker_id, info=INFO)
        clock.forward(seconds=0 if worker_id == "b" else 1)

    assert [row["worker_id"] for row in sql.workers()] == ["z", "a", "b"]
    assert [row["worker_id"] for row in sql.workers(worker_id="b")] == ["b"]
    assert sql.workers(worker_id="nobody") == []


def test_counts_the_jobs_that_each_holds(sql: Contract) -> None:
    for worker_id in ("w", "v"):
        sql.announce(worker_id=worker_id, info=INFO)
    for _ in range(3):
        sql.new_job()
    sql.claim(queues=["q"], worker_id="w", limit=2)
    sql.claim(queues=["q"], worker_id="nobody", limit=1)

    assert {row["worker_id"]: row["running"] for row in sql.workers()} == {"w": 2, "v": 0}


def test_one_that_is_not_heard_of_for_three_intervals_is_silent(sql: Contract, clock: Clock) -> None:
    sql.announce(worker_id="usual", info=INFO)
    sql.announce(worker_id="slow", info={**INFO, "announce_every": 60.5})
    states = []
    for seconds in (90, 1, 90.5, 1):
        clock.forward(seconds=seconds)
        states.append({row["worker_id"]: row["state"] for row in sql.workers()})

    assert [state["usual"] for state in states] == ["running", "silent", "silent", "silent"]
    assert [state["slow"] for state in states] == ["running", "running", "running", "silent"]


def test_one_that_is_heard_of_again_is_not_silent(sql: Contract, clock: Clock) -> None:
    sql.announce(worker_id="w", info=INFO)
    clock.forward(hours=1)
    assert sql.workers()[0]["state"] == "silent"
    sql.announce(worker_id="w", info=INFO)
    assert sql.workers()[0]["state"] == "running"


def test_shows_who_was_asked_to_stop(sql: Contract) -> None:
    sql.announce(worker_id="w", info=INFO)
    sql.stop_worker(worker_id="w")
    assert sql.workers()[0]["stop_requested"] is True


@pytest.mark.parametrize("value", [None, "x", -1, 1.5, 1e300, 10**9, 10**12, [1], {"a": 1}, True, "1 "])
def test_bears_whatever_was_announced(sql: Contract, value: Any) -> None:
    names = ("queues", "host", "pid", "version", "slots", "announce_every")
    sql.announce(worker_id="w", info=Jsonb(dict.fromkeys(names, value)))

    [row] = sql.workers()
    assert (row["pid"], row["slots"], row["state"]) == (None, None, None)


def test_names_the_queues_that_have_names(sql: Contract) -> None:
    sql.announce(worker_id="w", info={**INFO, "queues": ["b", None, "a"]})
    assert sql.workers()[0]["queues"] == ["b", "a"]
