"""Every housekeeping pass once, for cron."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused


def test_returns_a_count_of_every_pass(sql: Contract) -> None:
    assert sql.columns("housekeep") == ["taken_back", "expired", "pruned", "raised"]


def test_finds_nothing_where_nothing_is(sql: Contract) -> None:
    assert sql.housekeep() == [{"taken_back": 0, "expired": 0, "pruned": 0, "raised": 0}]


def test_runs_every_pass(sql: Contract, clock: Clock) -> None:
    done = sql.new_attempt()
    sql.complete(job_id=done["job_id"], attempt_id=done["attempt_id"])
    clock.forward(days=2)
    for _ in range(2):
        sql.new_attempt(lease=timedelta(seconds=1))
    for _ in range(3):
        sql.new_job(ttl=timedelta(seconds=1))
    sql.set_queue(queue="slow", aging=timedelta(seconds=1))
    for priority in (0, 1):
        sql.new_job(queue="slow", priority=priority)
    clock.forward(seconds=1)

    assert sql.housekeep() == [{"taken_back": 2, "expired": 3, "pruned": 1, "raised": 1}]
    assert sql.housekeep() == [{"taken_back": 0, "expired": 0, "pruned": 0, "raised": 0}]


def test_takes_back_first(sql: Contract, clock: Clock) -> None:
    """So a job whose lease and time to live are both over ends in one pass."""
    attempt = sql.new_attempt(lease=timedelta(seconds=1), ttl=timedelta(seconds=1))
    clock.forward(seconds=1)

    assert sql.housekeep() == [{"taken_back": 1, "expired": 1, "pruned": 0, "raised": 0}]
    assert sql.job(attempt["job_id"])["outcome"] == "expired_ttl"


def test_the_limit_is_for_each_pass(sql: Contract, clock: Clock) -> None:
    for _ in range(3):
        sql.new_job(ttl=timedelta(seconds=1))
    clock.forward(seconds=1)

    assert sql.housekeep(limit=2)[0]["expired"] == 2


def test_leaves_out_a_pass_that_another_session_runs(sql: Contract, other: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(lease=timedelta(seconds=1))
    sql.new_job(ttl=timedelta(seconds=1))
    clock.forward(seconds=1)

    with sql.conn.transaction(force_rollback=True):
        assert [row["job_id"] for row in sql.take_back()] == [attempt["job_id"]]
        assert other.housekeep() == [{"taken_back": 0, "expired": 1, "pruned": 0, "raised": 0}]


@pytest.mark.parametrize("limit", [None, 0, 10_001])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    with refused("TQ422", "is outside 1 to 10000"):
        sql.housekeep(limit=limit)
