"""Ending queued jobs whose time to live is over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused

TTL = timedelta(seconds=10)


def _expired(sql: Contract, limit: int = 1000) -> int:
    [row] = sql.expire_ttl(limit=limit)
    return int(row["expire_ttl"])


def test_returns_a_count(sql: Contract) -> None:
    assert sql.expire_ttl() == [{"expire_ttl": 0}]


def test_ends_a_job_at_the_instant_its_time_is_over(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(ttl=TTL)
    clock.forward(seconds=9.999999)
    assert _expired(sql) == 0
    clock.forward(seconds=0.000001)
    assert _expired(sql) == 1
    assert _expired(sql) == 0

    job = sql.job(job_id)
    assert (job["status"], job["outcome"], job["reason"]) == (
        "cancelled",
        "expired_ttl",
        "its time to live was over",
    )
    assert (job["finished_at"], job["purge_at"]) == (clock.now, clock.now + timedelta(days=2))


def test_counts_from_when_the_job_was_due(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(ttl=TTL, delay=timedelta(seconds=100))
    clock.forward(seconds=109)
    assert _expired(sql) == 0
    clock.forward(seconds=1)
    assert _expired(sql) == 1
    assert sql.job(job_id)["outcome"] == "expired_ttl"


def test_leaves_jobs_without_a_time_to_live(sql: Contract, clock: Clock) -> None:
    sql.new_job()
    clock.forward(days=300)

    assert _expired(sql) == 0


def test_never_ends_a_running_job_but_ends_it_between_two_attempts(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(ttl=TTL)
    clock.forward(seconds=30)
    assert _expired(sql) == 0
    sql.release(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    assert sql.claim(queues=["q"], worker_id="w") == []

    assert _expired(sql) == 1
    assert sql.job(attempt["job_id"])["outcome"] == "expired_ttl"
    assert len(sql.job_history(job_id=attempt["job_id"])) == 1


@pytest.mark.parametrize("waits", ["held", "blocked", "paused"])
def test_ends_a_job_that_waits_for_whatever(sql: Contract, clock: Clock, waits: str) -> None:
    job_id = sql.new_job(ttl=TTL)
    if waits == "paused":
        sql.pause_queue(queue="q")
    else:
        sql.run(
            "update taskq.ready set concurrency_key = 'k', hold = %s",
            "key" if waits == "held" else "dependency",
        )
    clock.forward(seconds=10)

    assert _expired(sql) == 1
    assert sql.job(job_id)["status"] == "cancelled"


def test_is_bounded_and_takes_the_oldest_first(sql: Contract, clock: Clock) -> None:
    late = sql.new_job(ttl=timedelta(seconds=3))
    early = [sql.new_job(ttl=timedelta(seconds=seconds)) for seconds in (1, 2)]
    clock.forward(seconds=3)

    assert _expired(sql, limit=2) == 2
    assert [sql.job(job_id)["status"] for job_id in (*early, late)] == ["cancelled", "cancelled", "queued"]
    assert _expired(sql, limit=2) == 1


def test_skips_rows_that_another_session_has_locked(sql: Contract, other: Contract, clock: Clock) -> None:
    locked, free = sql.new_job(ttl=TTL), sql.new_job(ttl=TTL)
    clock.forward(seconds=10)

    with sql.conn.transaction(force_rollback=True):
        sql.cancel_job(job_id=locked)
        assert _expired(other) == 1
    assert sql.job(free)["status"] == "cancelled"
    assert _expired(other) == 1


def test_never_queues_behind_another_pass(sql: Contract, other: Contract, clock: Clock) -> None:
    sql.new_job(ttl=TTL)
    clock.forward(seconds=10)
    with sql.conn.transaction():
        _expired(sql, limit=1)
        assert _expired(other) == 0


@pytest.mark.parametrize("limit", [None, 0, 10_001])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    with refused("TQ422", "of expire_ttl is outside 1 to 10000"):
        sql.expire_ttl(limit=limit)
