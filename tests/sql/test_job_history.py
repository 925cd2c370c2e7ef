"""Every attempt of a job, oldest first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused

COLUMNS = [
    "attempt_id",
    "worker_id",
    "claimed_at",
    "ended_at",
    "verb",
    "status",
    "outcome",
    "error",
    "reason",
    "scheduled_at",
]


def test_returns_the_columns_of_an_attempt(sql: Contract) -> None:
    assert sql.columns("job_history", job_id=sql.new_job()) == COLUMNS


def test_is_empty_for_a_job_that_was_never_claimed(sql: Contract) -> None:
    assert sql.job_history(job_id=sql.new_job()) == []


def test_is_empty_for_a_job_cancelled_before_it_ran(sql: Contract) -> None:
    job_id = sql.new_job()
    sql.cancel_job(job_id=job_id)
    assert sql.job_history(job_id=job_id) == []


def test_shows_every_attempt_to_the_running_one(sql: Contract, clock: Clock) -> None:
    start = clock.now
    first = sql.new_attempt(max_attempts=9, backoff=timedelta(0))
    job_id = first["job_id"]
    clock.forward(seconds=1)
    sql.fail(job_id=job_id, attempt_id=first["attempt_id"], error="boom")
    second = sql.take(worker="v")
    clock.forward(seconds=1)
    sql.snooze(job_id=job_id, attempt_id=second["attempt_id"], delay=timedelta(seconds=5), reason="later")
    clock.forward(seconds=5)
    third = sql.take(worker="u")
    sql.run_out(job_id)
    sql.take_back()
    fourth = sql.take()

    rows = sql.job_history(job_id=job_id)
    assert [row["attempt_id"] for row in rows] == [
        each["attempt_id"] for each in (first, second, third, fourth)
    ]
    assert [list(row.values())[1:] for row in rows] == [
        ["w", start, start + timedelta(seconds=1), "fail", "queued", None, "boom", None, start + timedelta(seconds=1)],
        ["v", start + timedelta(seconds=1), start + timedelta(seconds=2), "snooze", "queued", None, None, "later",
         start + timedelta(seconds=7)],
        ["u", clock.now, clock.now, "take_back", "queued", None, None, "the lease ran out", clock.now],
        ["w", clock.now, None, None, "running", None, None, None, None],
    ]  # fmt: skip


def test_shows_the_attempt_that_ended_the_job_last(sql: Contract, clock: Clock) -> None:
    first = sql.new_attempt()
    sql.release(job_id=first["job_id"], attempt_id=first["attempt_id"])
    second = sql.take()
    sql.fail(job_id=first["job_id"], attempt_id=second["attempt_id"], error="bad", retryable=False)

    released, failed = sql.job_history(job_id=first["job_id"])
    assert (released["verb"], released["status"]) == ("release", "queued")
    assert failed == {
        "attempt_id": second["attempt_id"],
        "worker_id": "w",
        "claimed_at": clock.now,
        "ended_at": clock.now,
        "verb": "fail",
        "status": "failed",
        "outcome": "non_retryable",
        "error": "bad",
        "reason": None,
        "scheduled_at": None,
    }


def test_shows_only_attempts_of_the_job(sql: Contract) -> None:
    one, other = sql.new_attempt(), sql.new_attempt()

    assert [row["attempt_id"] for row in sql.job_history(job_id=one["job_id"])] == [one["attempt_id"]]
    assert [row["attempt_id"] for row in sql.job_history(job_id=other["job_id"])] == [other["attempt_id"]]


@pytest.mark.parametrize(("job_id", "shown"), [(10**15, "no job 1000000000000000"), (None, "no job null")])
def test_refuses_an_unknown_job(sql: Contract, job_id: int | None, shown: str) -> None:
    with refused("TQ001", shown):
        sql.job_history(job_id=job_id)
