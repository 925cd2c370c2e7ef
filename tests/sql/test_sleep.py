"""Who sleeps until when: `sleep_until` and `awake`. What a producer makes of it is in test_enqueue.py."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused

SLEEPERS = "select worker_id, queues, wakes_at from taskq.sleepers order by worker_id"


def test_returns_nothing(sql: Contract, clock: Clock) -> None:
    [slept] = sql.sleep_until(worker_id="w", queues=["q"], wakes_at=clock.now)
    [woke] = sql.awake(worker_id="w")

    assert not slept["sleep_until"]
    assert not woke["awake"]


def test_registers_a_sleeper_and_renews_it(sql: Contract, clock: Clock) -> None:
    later = clock.now + timedelta(seconds=5)
    sql.sleep_until(worker_id="w", queues=["a"], wakes_at=clock.now)
    sql.sleep_until(worker_id="w", queues=["a", "b"], wakes_at=later)
    sql.sleep_until(worker_id="v", queues=["a"], wakes_at=later)

    assert sql.rows(SLEEPERS) == [
        {"worker_id": "v", "queues": ["a"], "wakes_at": later},
        {"worker_id": "w", "queues": ["a", "b"], "wakes_at": later},
    ]


def test_awake_strikes_the_worker_alone_also_twice(sql: Contract, clock: Clock) -> None:
    for worker_id in ("w", "v"):
        sql.sleep_until(worker_id=worker_id, queues=["q"], wakes_at=clock.now)
    for _ in range(2):
        sql.awake(worker_id="w")
    sql.awake(worker_id=None)

    assert [row["worker_id"] for row in sql.rows(SLEEPERS)] == ["v"]


def test_takes_a_duration_by_the_clock_of_the_database(sql: Contract, clock: Clock) -> None:
    sql.run("select taskq.sleep_until('w', array['q'], taskq.clock() + %s)", timedelta(seconds=5))
    assert sql.rows(SLEEPERS)[0]["wakes_at"] == clock.now + timedelta(seconds=5)


@pytest.mark.parametrize("worker_id", [None, "", "w" * 256])
def test_refuses_a_bad_worker_id(sql: Contract, clock: Clock, worker_id: str | None) -> None:
    with refused("TQ422", "p_worker_id must be 1 to 255 bytes"):
        sql.sleep_until(worker_id=worker_id, queues=["q"], wakes_at=clock.now)


@pytest.mark.parametrize("queues", [None, [], ["a", None], ["a", "a"]])
def test_refuses_a_bad_list_of_queues(sql: Contract, clock: Clock, queues: object) -> None:
    with refused("TQ422", "p_queues must "):
        sql.sleep_until(worker_id="w", queues=queues, wakes_at=clock.now)


def test_refuses_a_missing_time(sql: Contract) -> None:
    with refused("TQ422", "p_wakes_at of worker w is null"):
        sql.sleep_until(worker_id="w", queues=["q"], wakes_at=None)


def test_refuses_a_time_that_never_comes(sql: Contract) -> None:
    """prune would keep the sleeper for ever."""
    with refused("TQ422", "p_wakes_at of worker w is infinity"):
        sql.sleep_until(worker_id="w", queues=["q"], wakes_at="infinity")


def test_refuses_what_cannot_be_the_name_of_a_queue(sql: Contract) -> None:
    with refused("TQ422", "a name in p_queues is over the cap of 120 bytes"):
        sql.sleep_until(worker_id="w", queues=["q", "x" * 121], wakes_at="2030-01-01 00:00+00")
