"""Cancelling a job: at once when it is queued, by request when it runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kit.contract import Clock, Contract, refused


def _cancel(sql: Contract, job_id: int, **arguments: Any) -> tuple[str, str]:
    [row] = sql.cancel_job(job_id=job_id, **arguments)
    assert row["job_id"] == job_id
    return row["result"], row["status"]


def test_returns_job_id_result_and_status(sql: Contract) -> None:
    assert sql.columns("cancel_job", job_id=sql.new_job()) == ["job_id", "result", "status"]


def test_ends_a_queued_job_now(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job()

    assert _cancel(sql, job_id, reason="wrong customer") == ("cancelled", "cancelled")
    job = sql.job(job_id)
    assert (job["status"], job["outcome"], job["reason"]) == ("cancelled", "cancelled", "wrong customer")
    assert (job["finished_at"], job["purge_at"]) == (clock.now, clock.now + timedelta(days=2))
    assert sql.claim(queues=["q"], worker_id="w") == []


@pytest.mark.parametrize("waits", ["delayed", "snoozed", "held", "blocked", "paused"])
def test_ends_a_job_that_waits_for_whatever(sql: Contract, waits: str) -> None:
    if waits == "held":
        sql.new_job(concurrency_key="k")
        job_id = sql.new_job(concurrency_key="k")
        sql.take(limit=2)
    elif waits == "snoozed":
        attempt = sql.new_attempt()
        job_id = attempt["job_id"]
        sql.snooze(job_id=job_id, attempt_id=attempt["attempt_id"], delay=timedelta(hours=1))
    else:
        job_id = sql.new_job(delay=timedelta(hours=1) if waits == "delayed" else None)
        if waits == "blocked":
            sql.run("update taskq.ready set hold = 'dependency' where id = %s", job_id)
        elif waits == "paused":
            sql.pause_queue(queue="q")

    assert _cancel(sql, job_id) == ("cancelled", "cancelled")
    assert sql.job(job_id)["status"] == "cancelled"


def test_keeps_the_history_of_a_job_that_has_run(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom")
    _cancel(sql, attempt["job_id"])

    [row] = sql.job_history(job_id=attempt["job_id"])
    assert (row["attempt_id"], row["error"]) == (attempt["attempt_id"], "boom")
    assert sql.job(attempt["job_id"])["failure_count"] == 1


def test_asks_a_running_job(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()

    assert _cancel(sql, attempt["job_id"], actor="ann", reason="enough") == ("requested", "running")
    job = sql.job(attempt["job_id"])
    assert (job["status"], job["cancel_requested_at"], job["reason"]) == ("running", clock.now, "enough")
    assert job["current_attempt_id"] == attempt["attempt_id"]


def test_the_first_request_stays(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    first = clock.now
    _cancel(sql, attempt["job_id"], reason="first")
    clock.forward(seconds=5)

    assert _cancel(sql, attempt["job_id"], reason="second") == ("requested", "running")
    job = sql.job(attempt["job_id"])
    assert (job["cancel_requested_at"], job["reason"]) == (first, "first")


def test_a_request_ends_with_the_attempt_that_was_asked(sql: Contract) -> None:
    """The attempt landed as cancelled whatever it said but complete, so no later attempt inherits the request."""
    attempt = sql.new_attempt()
    _cancel(sql, attempt["job_id"])
    [row] = sql.release(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

    assert row["status"] == "cancelled"


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_an_ended_job_stays_as_it_ended(sql: Contract, status: str) -> None:
    attempt = sql.new_attempt()
    ids = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}
    if status == "succeeded":
        sql.complete(**ids)
    elif status == "failed":
        sql.fail(**ids, error="boom", retryable=False)
    else:
        sql.cancel_attempt(**ids)
    before = sql.job(attempt["job_id"])

    assert _cancel(sql, attempt["job_id"], reason="late") == ("already_ended", status)
    assert sql.job(attempt["job_id"]) == before


def test_twice_is_already_ended(sql: Contract) -> None:
    job_id = sql.new_job()
    assert _cancel(sql, job_id) == ("cancelled", "cancelled")
    assert _cancel(sql, job_id) == ("already_ended", "cancelled")


def test_leaves_an_audit_row_for_every_call(sql: Contract) -> None:
    job_id = sql.new_job()
    _cancel(sql, job_id, actor="ann", reason="r")
    _cancel(sql, job_id)
    me = sql.value("select session_user")

    assert sql.rows("select actor, verb, target, reason, detail from taskq.audit order by id") == [
        {
            "actor": "ann",
            "verb": "cancel_job",
            "target": f"job {job_id}",
            "reason": "r",
            "detail": {"result": "cancelled"},
        },
        {
            "actor": me,
            "verb": "cancel_job",
            "target": f"job {job_id}",
            "reason": None,
            "detail": {"result": "already_ended"},
        },
    ]


@pytest.mark.parametrize(("job_id", "shown"), [(10**15, "no job 1000000000000000"), (None, "no job null")])
def test_refuses_an_unknown_job(sql: Contract, job_id: int | None, shown: str) -> None:
    with refused("TQ001", shown, hint="retention deleted it"):
        sql.cancel_job(job_id=job_id)


@pytest.mark.broken_integrity
def test_says_tq500_for_a_job_that_stands_nowhere(sql: Contract) -> None:
    job_id = sql.new_job()
    sql.run("delete from taskq.ready where id = %s", job_id)

    with refused("TQ500", f"job {job_id} was in no place on twenty looks", hint="check_integrity()"):
        sql.cancel_job(job_id=job_id)
