"""The single form `cancel_attempt`. The situations of all verbs are in test_settle_table.py."""

from __future__ import annotations

from datetime import timedelta

from kit.contract import Clock, Contract

COLUMNS = ["job_id", "attempt_id", "result", "status", "scheduled_at", "reason"]


def test_returns_the_columns_of_settle(sql: Contract) -> None:
    assert sql.columns("cancel_attempt", job_id=1, attempt_id=1) == COLUMNS


def test_ends_the_job_as_cancelled(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    [row] = sql.cancel_attempt(
        job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], reason="customer left"
    )
    job = sql.job(attempt["job_id"])

    assert (row["result"], row["status"], row["scheduled_at"], row["reason"]) == (
        "ok",
        "cancelled",
        None,
        None,
    )
    assert (job["status"], job["outcome"], job["reason"]) == ("cancelled", "cancelled", "customer left")
    assert (job["finished_at"], job["purge_at"]) == (clock.now, clock.now + timedelta(days=2))


def test_needs_no_reason(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.cancel_attempt(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

    assert sql.job(attempt["job_id"])["reason"] is None


def test_the_reason_of_the_operator_who_asked_goes_before(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.cancel_job(job_id=attempt["job_id"], reason="the operator's")
    sql.cancel_attempt(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], reason="the handler's")

    assert sql.job(attempt["job_id"])["reason"] == "the operator's"
