"""The single form `release`. The situations of all verbs are in test_settle_table.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row

COLUMNS = ["job_id", "attempt_id", "result", "status", "scheduled_at", "reason"]


def _release(sql: Contract, attempt: Row, **arguments: Any) -> Row:
    [row] = sql.release(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], **arguments)
    return row


def test_returns_the_columns_of_settle(sql: Contract) -> None:
    assert sql.columns("release", job_id=1, attempt_id=1) == COLUMNS


@pytest.mark.parametrize("arguments", [{}, {"delay": None}, {"delay": timedelta(0)}])
def test_queues_the_job_at_once_unless_told_otherwise(
    sql: Contract, clock: Clock, arguments: dict[str, Any]
) -> None:
    attempt = sql.new_attempt()
    row = _release(sql, attempt, **arguments)

    assert (row["result"], row["status"], row["scheduled_at"]) == ("ok", "queued", clock.now)
    assert sql.take()["job_id"] == attempt["job_id"]


def test_queues_the_job_after_a_delay(sql: Contract, clock: Clock) -> None:
    row = _release(sql, sql.new_attempt(), delay=timedelta(seconds=5))

    assert row["scheduled_at"] == clock.now + timedelta(seconds=5)
    assert sql.claim(queues=["q"], worker_id="w") == []


def test_records_cause_and_checkpoint(sql: Contract) -> None:
    attempt = sql.new_attempt()
    _release(sql, attempt, cause="worker_shutdown", progress=Jsonb([1, 2]))
    [history] = sql.job_history(job_id=attempt["job_id"])

    assert (history["verb"], history["status"], history["reason"]) == ("release", "queued", "worker_shutdown")
    assert sql.take()["progress"] == [1, 2]


def test_a_job_that_was_not_started_leaves_no_attempt(sql: Contract) -> None:
    attempt = sql.new_attempt()
    _release(sql, attempt, cause="not_started")

    assert sql.job_history(job_id=attempt["job_id"]) == []
    assert sql.take()["attempt_count"] == 2


@pytest.mark.parametrize("delay", [timedelta(microseconds=-1), timedelta(days=366, seconds=1)])
def test_rejects_a_delay_out_of_bounds(sql: Contract, delay: timedelta) -> None:
    attempt = sql.new_attempt()
    row = _release(sql, attempt, delay=delay)

    assert row["result"] == "rejected"
    assert row["reason"].endswith("is outside 0 to 366 days")
    assert sql.job(attempt["job_id"])["status"] == "running"


def test_rejects_a_checkpoint_over_the_cap(sql: Contract) -> None:
    row = _release(sql, sql.new_attempt(), progress=Jsonb("x" * 2047))
    assert (row["result"], row["reason"]) == ("rejected", "progress of 2049 bytes is over the cap of 2048")
