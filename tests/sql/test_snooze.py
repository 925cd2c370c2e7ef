"""The single form `snooze`. The situations of all verbs are in test_settle_table.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row
from kit.flavours import says

COLUMNS = ["job_id", "attempt_id", "result", "status", "scheduled_at", "reason"]


def _snooze(sql: Contract, attempt: Row, delay: timedelta | None, **arguments: Any) -> Row:
    [row] = sql.snooze(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], delay=delay, **arguments)
    return row


def test_returns_the_columns_of_settle(sql: Contract) -> None:
    assert sql.columns("snooze", job_id=1, attempt_id=1, delay=timedelta(1)) == COLUMNS


def test_queues_the_job_again_after_the_delay(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    row = _snooze(sql, attempt, timedelta(seconds=30))

    assert (row["result"], row["status"], row["reason"]) == ("ok", "queued", None)
    assert row["scheduled_at"] == clock.now + timedelta(seconds=30)
    assert sql.claim(queues=["q"], worker_id="w") == []
    clock.forward(seconds=30)
    again = sql.take()
    assert (again["job_id"], again["attempt_count"], again["failure_count"]) == (attempt["job_id"], 2, 0)


def test_records_reason_and_checkpoint(sql: Contract) -> None:
    attempt = sql.new_attempt()
    row = _snooze(sql, attempt, timedelta(hours=1), reason="the export is not there", progress={"page": 2})
    [history] = sql.job_history(job_id=attempt["job_id"])

    assert (history["verb"], history["status"], history["outcome"]) == ("snooze", "queued", None)
    assert (history["reason"], history["scheduled_at"]) == ("the export is not there", row["scheduled_at"])
    job = sql.job(attempt["job_id"])
    assert (job["progress"], job["snooze_count"], job["reason"]) == ({"page": 2}, 1, None)


@pytest.mark.parametrize(
    ("delay", "shown"),
    [
        (None, "null"),
        (timedelta(0), "00:00:00"),
        (timedelta(milliseconds=99), "00:00:00.099"),
        (timedelta(seconds=-1), "-1 days +23:59:59"),
        (timedelta(days=366, seconds=1), "366 days 00:00:01"),
    ],
)
def test_rejects_a_delay_out_of_bounds(sql: Contract, delay: timedelta | None, shown: str) -> None:
    attempt = sql.new_attempt()
    row = _snooze(sql, attempt, delay)

    assert (row["result"], row["status"]) == ("rejected", None)
    assert says(row["reason"], f"delay {shown} of a snooze is outside 0.1 s to 366 days")
    assert sql.job(attempt["job_id"])["status"] == "running"


@pytest.mark.parametrize("delay", [timedelta(milliseconds=100), timedelta(days=366)])
def test_takes_a_delay_just_in_bounds(sql: Contract, delay: timedelta) -> None:
    assert _snooze(sql, sql.new_attempt(), delay)["result"] == "ok"


def test_rejects_a_checkpoint_over_the_cap(sql: Contract) -> None:
    row = _snooze(sql, sql.new_attempt(), timedelta(1), progress=Jsonb("x" * 2047))
    assert (row["result"], row["reason"]) == ("rejected", "progress of 2049 bytes is over the cap of 2048")


def test_keeps_priority_and_key_and_does_not_restart_the_time_to_live(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(priority=5, concurrency_key="k", unique_key="u", ttl=timedelta(hours=1))
    before = sql.job(attempt["job_id"])
    _snooze(sql, attempt, timedelta(minutes=59))
    after = sql.job(attempt["job_id"])

    kept = ("priority", "concurrency_key", "unique_key", "expires_at", "payload")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
