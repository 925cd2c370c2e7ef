"""What became of an attempt, for a worker that does not know whether its commit arrived."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from kit.contract import Contract, Row


def _state(sql: Contract, attempt: Row) -> tuple[str, str | None]:
    [row] = sql.attempt_state(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    return row["state"], row["status"]


def test_returns_state_and_status(sql: Contract) -> None:
    assert sql.columns("attempt_state", job_id=1, attempt_id=1) == ["state", "status"]


def test_is_running_while_the_fence_holds_also_after_the_lease(sql: Contract) -> None:
    attempt = sql.new_attempt()
    assert _state(sql, attempt) == ("running", "running")
    sql.run_out(attempt["job_id"])
    assert _state(sql, attempt) == ("running", "running")


@pytest.mark.parametrize(
    ("verb", "arguments", "status"),
    [
        ("complete", {}, "succeeded"),
        ("fail", {"error": "boom"}, "queued"),
        ("fail", {"error": "boom", "retryable": False}, "failed"),
        ("snooze", {"delay": timedelta(hours=1)}, "queued"),
        ("release", {}, "queued"),
        ("cancel_attempt", {}, "cancelled"),
    ],
)
def test_is_settled_with_where_it_landed(
    sql: Contract, verb: str, arguments: dict[str, Any], status: str
) -> None:
    attempt = sql.new_attempt()
    getattr(sql, verb)(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], **arguments)

    assert _state(sql, attempt) == ("settled", status)


def test_is_settled_while_a_later_attempt_runs(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.release(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    later = sql.take()

    assert _state(sql, attempt) == ("settled", "queued")
    assert _state(sql, later) == ("running", "running")


@pytest.mark.parametrize("max_attempts", [5, 1])
def test_is_lost_when_it_was_taken_back(sql: Contract, max_attempts: int) -> None:
    attempt = sql.new_attempt(max_attempts=max_attempts)
    sql.run_out(attempt["job_id"])
    sql.take_back()

    assert _state(sql, attempt) == ("lost", None)


@pytest.mark.parametrize("ids", [(None, None), (1, None), (None, 1), (10**15, 10**15)])
def test_is_lost_when_it_is_unknown(sql: Contract, ids: tuple[Any, Any]) -> None:
    assert _state(sql, {"job_id": ids[0], "attempt_id": ids[1]}) == ("lost", None)


@pytest.mark.parametrize(
    ("commits", "expected"), [(True, ("settled", "succeeded")), (False, ("running", "running"))]
)
def test_waits_until_a_transaction_in_flight_has_ended(
    sql: Contract, other: Contract, wait_until_blocked, commits: bool, expected: tuple[str, str]
) -> None:
    attempt = sql.new_attempt()
    with ThreadPoolExecutor(1) as pool:
        with sql.conn.transaction(force_rollback=not commits):
            sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
            asked = pool.submit(_state, other, attempt)
            wait_until_blocked(other.conn)
        assert asked.result() == expected


def test_is_busy_when_the_row_stays_locked(sql: Contract, other: Contract) -> None:
    """The wait is bounded by the function itself, whatever the session's own lock_timeout."""
    attempt = sql.new_attempt()
    other.run("set lock_timeout = 0")
    with sql.conn.transaction():
        sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
        assert _state(other, attempt) == ("busy", None)
    assert other.value("show lock_timeout") == "0"
    assert _state(other, attempt) == ("settled", "succeeded")
