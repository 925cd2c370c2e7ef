"""The single form `fail`. The situations of all verbs are in test_settle_table.py, the backoff in test_backoff.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row

COLUMNS = ["job_id", "attempt_id", "result", "status", "scheduled_at", "reason"]


def _fail(sql: Contract, attempt: Row, error: str | None = "boom", **arguments: Any) -> Row:
    [row] = sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error=error, **arguments)
    return row


def test_returns_the_columns_of_settle(sql: Contract) -> None:
    assert sql.columns("fail", job_id=1, attempt_id=1, error="boom") == COLUMNS


def test_queues_the_job_again_after_its_backoff(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(backoff=timedelta(seconds=100))
    row = _fail(sql, attempt)

    assert (row["result"], row["status"], row["reason"]) == ("retry_scheduled", "queued", None)
    assert timedelta(seconds=85) <= row["scheduled_at"] - clock.now <= timedelta(seconds=115)
    assert sql.job(attempt["job_id"])["scheduled_at"] == row["scheduled_at"]
    assert sql.claim(queues=["q"], worker_id="w") == []


def test_records_the_error_in_the_history(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    claimed_at = clock.now
    clock.forward(seconds=5)
    row = _fail(sql, attempt, "ValueError: é")

    assert sql.job_history(job_id=attempt["job_id"]) == [
        {
            "attempt_id": attempt["attempt_id"],
            "worker_id": "w",
            "claimed_at": claimed_at,
            "ended_at": clock.now,
            "verb": "fail",
            "status": "queued",
            "outcome": None,
            "error": "ValueError: é",
            "reason": None,
            "scheduled_at": row["scheduled_at"],
        }
    ]
    assert sql.job(attempt["job_id"])["error"] is None


@pytest.mark.parametrize(("options", "arguments"), [({"max_attempts": 1}, {}), ({}, {"retryable": False})])
def test_keeps_a_dead_job_with_its_error(
    sql: Contract, clock: Clock, options: dict[str, Any], arguments: dict[str, Any]
) -> None:
    attempt = sql.new_attempt(**options)
    row = _fail(sql, attempt, "boom", **arguments)
    job = sql.job(attempt["job_id"])

    assert (row["result"], row["status"], row["scheduled_at"]) == ("dead", "failed", None)
    assert (job["error"], job["finished_at"]) == ("boom", clock.now)
    assert job["purge_at"] == clock.now + timedelta(days=30)


def test_a_retry_after_goes_before_the_backoff(sql: Contract, clock: Clock) -> None:
    assert _fail(sql, sql.new_attempt(), retry_after=timedelta(minutes=7))[
        "scheduled_at"
    ] == clock.now + timedelta(minutes=7)
    assert _fail(sql, sql.new_attempt(), retry_after=timedelta(0))["scheduled_at"] == clock.now


@pytest.mark.parametrize("retry_after", [timedelta(microseconds=-1), timedelta(days=366, microseconds=1)])
def test_rejects_a_retry_after_out_of_bounds(sql: Contract, retry_after: timedelta) -> None:
    attempt = sql.new_attempt()
    row = _fail(sql, attempt, retry_after=retry_after)

    assert row["result"] == "rejected"
    assert row["reason"].startswith("retry_after ")
    assert sql.job(attempt["job_id"])["status"] == "running"


def test_nulls_are_the_defaults(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(backoff=timedelta(0))
    row = _fail(sql, attempt, error=None, retryable=None, retry_after=None, progress=None)

    assert (row["result"], row["scheduled_at"]) == ("retry_scheduled", clock.now)
    assert sql.job_history(job_id=attempt["job_id"])[0]["error"] is None


def test_stores_a_checkpoint_or_keeps_the_last_one(sql: Contract) -> None:
    attempt = sql.new_attempt(backoff=timedelta(0))
    _fail(sql, attempt, progress={"page": 1})
    again = sql.take()
    _fail(sql, again)

    assert again["progress"] == {"page": 1}
    assert sql.take()["progress"] == {"page": 1}


def test_rejects_a_checkpoint_over_the_cap(sql: Contract) -> None:
    row = _fail(sql, sql.new_attempt(), progress=Jsonb("x" * 2047))
    assert (row["result"], row["reason"]) == ("rejected", "progress of 2049 bytes is over the cap of 2048")


def test_a_cancel_request_keeps_the_error_and_the_reason_of_the_operator(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.cancel_job(job_id=attempt["job_id"], reason="wrong customer")
    row = _fail(sql, attempt)
    job = sql.job(attempt["job_id"])

    assert (row["result"], row["status"]) == ("ok", "cancelled")
    assert (job["outcome"], job["error"], job["reason"]) == ("cancelled", "boom", "wrong customer")


def test_notifies_for_the_next_attempt_though_nobody_sleeps(sql: Contract, heard) -> None:
    """It may stand in a transaction that commits long after it looked; only `settle` of a worker may skip this."""
    attempt, settled = sql.new_attempt(), sql.new_attempt()
    heard()

    _fail(sql, attempt, retry_after=timedelta(0))
    assert heard() == ["q"]

    element = {
        "job_id": settled["job_id"],
        "attempt_id": settled["attempt_id"],
        "verb": "fail",
        "retry_after": 0,
    }
    assert [row["result"] for row in sql.settle(worker_id="w", settlements=Jsonb([element]))] == [
        "retry_scheduled"
    ]
    assert heard() == []
