"""The presence of workers: for people and for stop requests, never for deciding whether a job is alive."""

# Scenario B01.

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, refused

INFO = {"queues": ["a", "b"], "state": "running", "host": "h", "pid": 7, "version": "1", "slots": 8}


def test_returns_stop_request_and_paused_queues(sql: Contract) -> None:
    assert sql.columns("announce", worker_id="w", info=INFO) == ["stop_requested", "paused_queues"]


def test_registers_the_worker_and_renews_it(sql: Contract, clock: Clock) -> None:
    started = clock.now
    assert sql.announce(worker_id="w", info=INFO) == [{"stop_requested": False, "paused_queues": []}]
    clock.forward(seconds=30)
    sql.announce(worker_id="w", info={**INFO, "state": "stopping"})

    [row] = sql.rows("select worker_id, info, started_at, seen_at from taskq.workers")
    assert row == {
        "worker_id": "w",
        "info": {**INFO, "state": "stopping"},
        "started_at": started,
        "seen_at": clock.now,
    }


def test_delivers_a_stop_request_until_the_worker_is_gone(sql: Contract) -> None:
    sql.announce(worker_id="w", info=INFO)
    sql.run("update taskq.workers set stop_requested = true")

    for _ in range(2):
        assert sql.announce(worker_id="w", info=INFO)[0]["stop_requested"] is True
    assert sql.announce(worker_id="w", info={"state": "stopped"})[0]["stop_requested"] is True
    assert sql.announce(worker_id="w", info=INFO)[0]["stop_requested"] is False


def test_a_stopped_worker_leaves_no_trace(sql: Contract, clock: Clock) -> None:
    sql.announce(worker_id="w", info=INFO)
    sql.announce(worker_id="v", info=INFO)
    sql.sleep_until(worker_id="w", queues=["a"], wakes_at=clock.now)
    for _ in range(2):
        sql.announce(worker_id="w", info={**INFO, "state": "stopped"})

    assert sql.rows("select worker_id from taskq.workers") == [{"worker_id": "v"}]
    assert sql.rows("select worker_id from taskq.sleepers") == []


def test_names_those_of_its_queues_that_are_paused(sql: Contract) -> None:
    for queue in ("c", "b", "a"):
        sql.pause_queue(queue=queue)

    assert sql.announce(worker_id="w", info=INFO)[0]["paused_queues"] == ["a", "b"]
    sql.resume_queue(queue="a")
    assert sql.announce(worker_id="w", info=INFO)[0]["paused_queues"] == ["b"]


@pytest.mark.parametrize("queues", [None, "a", {"a": 1}, [], [None, 7, ["a"]]])
def test_bears_any_list_of_queues(sql: Contract, queues: Any) -> None:
    sql.pause_queue(queue="a")
    assert sql.announce(worker_id="w", info={"queues": queues})[0]["paused_queues"] == []


def test_decides_nothing_about_jobs(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.announce(worker_id="w", info={"state": "stopped"})

    assert sql.take_back() == []
    assert sql.job(attempt["job_id"])["status"] == "running"


@pytest.mark.parametrize("worker_id", [None, "", "w" * 256])
def test_refuses_a_bad_worker_id(sql: Contract, worker_id: str | None) -> None:
    with refused("TQ422", "p_worker_id must be 1 to 255 bytes"):
        sql.announce(worker_id=worker_id, info=INFO)


@pytest.mark.parametrize("info", [None, Jsonb([1]), Jsonb("x"), Jsonb({"x": "y" * 8184})])
def test_refuses_what_is_no_small_object(sql: Contract, info: Any) -> None:
    with refused("TQ422", "p_info of worker w must be a JSON object of at most 8192 bytes"):
        sql.announce(worker_id="w", info=info)


def test_takes_an_object_just_at_the_cap(sql: Contract) -> None:
    assert sql.announce(worker_id="w", info={"x": "y" * 8183})
