"""One job as one row, wherever it stands."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused

#: The columns of `job_view`, which get_job and list_jobs return.
COLUMNS = [
    "id",
    "queue",
    "task",
    "status",
    "outcome",
    "payload",
    "headers",
    "priority",
    "unique_key",
    "concurrency_key",
    "max_attempts",
    "backoff",
    "backoff_max",
    "lease",
    "ttl",
    "created_at",
    "scheduled_at",
    "expires_at",
    "hold",
    "attempt_count",
    "failure_count",
    "expiry_streak",
    "snooze_count",
    "progress",
    "current_attempt_id",
    "worker_id",
    "claimed_at",
    "lease_expires_at",
    "cancel_requested_at",
    "result",
    "error",
    "reason",
    "finished_at",
    "purge_at",
    "parent_job_id",
    "root_job_id",
    "enqueued_by",
    "ordered",
]


def test_returns_the_columns_of_job_view(sql: Contract) -> None:
    assert sql.columns("get_job", job_id=sql.new_job()) == COLUMNS


def test_shows_the_job_at_every_place(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(priority=4, payload={"a": 1}, unique_key="u", concurrency_key="c")

    def seen() -> dict[str, object]:
        job = sql.job(job_id)
        always = ("id", "queue", "task", "payload", "priority", "unique_key", "concurrency_key")
        assert [job[name] for name in always] == [job_id, "q", "t", {"a": 1}, 4, "u", "c"]
        return {
            name: job[name] for name in ("status", "outcome", "worker_id", "attempt_count", "finished_at")
        }

    waiting = {"status": "queued", "outcome": None, "worker_id": None, "finished_at": None}
    assert seen() == {**waiting, "attempt_count": 0}
    attempt = sql.take()
    assert seen() == {**waiting, "status": "running", "worker_id": "w", "attempt_count": 1}
    sql.release(job_id=job_id, attempt_id=attempt["attempt_id"])
    assert seen() == {**waiting, "attempt_count": 1}
    attempt = sql.take(worker="v")
    sql.complete(job_id=job_id, attempt_id=attempt["attempt_id"])
    assert seen() == {
        "status": "succeeded",
        "outcome": "success",
        "worker_id": "v",
        "attempt_count": 2,
        "finished_at": clock.now,
    }


def test_a_job_that_waits_for_its_key_is_queued_and_held(sql: Contract) -> None:
    sql.new_job(concurrency_key="k")
    waiting = sql.new_job(concurrency_key="k")
    sql.take(limit=2)

    job = sql.job(waiting)
    assert (job["status"], job["hold"]) == ("queued", "key")


def test_a_job_held_for_another_reason_is_blocked(sql: Contract) -> None:
    job_id = sql.new_job()
    sql.run("update taskq.ready set hold = 'dependency' where id = %s", job_id)

    job = sql.job(job_id)
    assert (job["status"], job["hold"]) == ("blocked", "dependency")


def test_shows_a_cancel_request(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    clock.forward(seconds=1)
    sql.cancel_job(job_id=attempt["job_id"], reason="enough")

    job = sql.job(attempt["job_id"])
    assert (job["status"], job["cancel_requested_at"], job["reason"]) == ("running", clock.now, "enough")


def test_shows_when_a_lease_ends(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(lease=timedelta(seconds=9))

    assert sql.job(attempt["job_id"])["lease_expires_at"] == clock.now + timedelta(seconds=9)


def test_does_not_see_what_is_not_committed(sql: Contract, other: Contract) -> None:
    with sql.conn.transaction(force_rollback=True):
        job_id = sql.new_job()
        with refused("TQ001", f"no job {job_id}", hint="its enqueue has not committed"):
            other.get_job(job_id=job_id)


@pytest.mark.parametrize(
    ("job_id", "shown"), [(10**15, "no job 1000000000000000"), (-1, "no job -1"), (None, "no job null")]
)
def test_refuses_an_unknown_job(sql: Contract, job_id: int | None, shown: str) -> None:
    with refused("TQ001", shown, hint="retention deleted it"):
        sql.get_job(job_id=job_id)
