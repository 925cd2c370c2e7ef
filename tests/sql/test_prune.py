"""Deleting finished jobs whose retention is over."""

# Scenarios B38, B85.

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused


def _prune(sql: Contract, limit: int = 1000) -> int:
    [row] = sql.prune(limit=limit)
    return int(row["prune"])


def _done(sql: Contract) -> int:
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    return int(attempt["job_id"])


def test_returns_a_count(sql: Contract) -> None:
    assert sql.prune() == [{"prune": 0}]


def test_deletes_a_job_when_its_retention_is_over(sql: Contract, clock: Clock) -> None:
    job_id = _done(sql)
    clock.forward(days=2, microseconds=-1)
    assert _prune(sql) == 0
    clock.forward(microseconds=1)
    assert _prune(sql) == 1
    assert _prune(sql) == 0

    with refused("TQ001", f"no job {job_id}"):
        sql.get_job(job_id=job_id)


def test_deletes_everything_of_the_job(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(unique_key="u", concurrency_key="c")
    sql.fail(
        job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom", retry_after=timedelta(0)
    )
    attempt = sql.take()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    clock.forward(days=3)
    _prune(sql)

    tables = ("jobs", "ready", "running", "finished", "attempts", "unique_keys")
    assert {table: sql.value(f"select count(*) from taskq.{table}") for table in tables} == dict.fromkeys(
        tables, 0
    )


def test_keeps_failed_jobs_longer(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom", retryable=False)
    clock.forward(days=29)
    assert _prune(sql) == 0
    clock.forward(days=1)
    assert _prune(sql) == 1


def test_touches_no_live_job(sql: Contract, clock: Clock) -> None:
    waiting, running = sql.new_job(delay=timedelta(days=300)), sql.new_attempt()["job_id"]
    clock.forward(days=200)

    assert _prune(sql) == 0
    assert sql.job(waiting)["status"] == "queued"
    assert sql.job(running)["status"] == "running"


def test_is_bounded_and_takes_the_oldest_first(sql: Contract, clock: Clock) -> None:
    ids = []
    for _ in range(5):
        ids.append(_done(sql))
        clock.forward(seconds=1)
    clock.forward(days=2)

    assert _prune(sql, limit=2) == 2
    assert [row["id"] for row in sql.list_jobs()] == ids[:1:-1]
    assert _prune(sql, limit=2) == 2
    assert _prune(sql, limit=2) == 1


def test_skips_rows_that_another_session_has_locked(sql: Contract, other: Contract, clock: Clock) -> None:
    locked, free = _done(sql), _done(sql)
    clock.forward(days=2)

    with sql.conn.transaction():
        sql.cancel_job(job_id=locked)
        assert _prune(other) == 1
    with refused("TQ001"):
        sql.get_job(job_id=free)
    assert _prune(other) == 1


def test_never_queues_behind_another_pass(sql: Contract, other: Contract, clock: Clock) -> None:
    _done(sql)
    clock.forward(days=2)
    with sql.conn.transaction():
        _prune(sql)
        assert _prune(other) == 0


def test_deletes_audit_rows_after_90_days(sql: Contract, clock: Clock) -> None:
    sql.pause_queue(queue="a")
    clock.forward(seconds=1)
    sql.pause_queue(queue="b")
    clock.forward(days=90, seconds=-1)
    _prune(sql)

    assert sql.rows("select target from taskq.audit") == [{"target": "queue b"}]


def test_deletes_workers_and_sleepers_not_seen_for_a_day(sql: Contract, clock: Clock) -> None:
    for worker_id in ("gone", "here"):
        sql.announce(worker_id=worker_id, info={})
        sql.sleep_until(worker_id=worker_id, queues=["q"], wakes_at=clock.now)
        clock.forward(seconds=1)
    clock.forward(days=1, seconds=-2)
    _prune(sql)

    assert sql.rows("select worker_id from taskq.workers") == [{"worker_id": "here"}]
    assert sql.rows("select worker_id from taskq.sleepers") == [{"worker_id": "here"}]


def test_decides_nothing_about_jobs_of_a_worker_it_deletes(sql: Contract, clock: Clock) -> None:
    """B01: an owner's presence may go before its job; only the lease says whether the job is alive."""
    sql.announce(worker_id="w", info={})
    attempt = sql.new_attempt()
    clock.forward(days=2)
    _prune(sql)

    assert sql.job(attempt["job_id"])["status"] == "running"
    assert [row["job_id"] for row in sql.take_back()] == [attempt["job_id"]]


@pytest.mark.parametrize("limit", [None, 0, 10_001])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    with refused("TQ422", "of prune is outside 1 to 10000"):
        sql.prune(limit=limit)
