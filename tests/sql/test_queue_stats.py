"""What stands in each queue, counted at a bounded cost."""

# Scenario B84.

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, Row

COLUMNS = [
    "queue",
    "paused",
    "ready",
    "delayed",
    "held",
    "running",
    "failed",
    "oldest_ready_age",
    "next_due_at",
]


def _stats(sql: Contract, queue: str = "q") -> Row:
    [row] = sql.queue_stats(queue=queue)
    return row


def test_returns_the_columns(sql: Contract) -> None:
    assert sql.columns("queue_stats") == COLUMNS


def test_is_empty_where_nothing_is(sql: Contract) -> None:
    assert sql.queue_stats() == []


def test_shows_zeros_for_a_queue_it_is_asked_for(sql: Contract) -> None:
    assert _stats(sql, "nowhere") == {
        "queue": "nowhere",
        "paused": False,
        "ready": 0,
        "delayed": 0,
        "held": 0,
        "running": 0,
        "failed": 0,
        "oldest_ready_age": None,
        "next_due_at": None,
    }


def test_counts_what_stands_in_the_queue(sql: Contract, clock: Clock) -> None:
    for _ in range(3):
        attempt = sql.new_attempt()
        sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom", retryable=False)
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    sql.new_attempt(concurrency_key="k")
    sql.new_job(concurrency_key="k")
    assert sql.claim(queues=["q"], worker_id="w") == []
    sql.new_job(queue="other")
    sql.new_job(priority=3)
    clock.forward(seconds=10)
    sql.new_job()
    sql.new_job(delay=timedelta(minutes=2))
    sql.new_job(delay=timedelta(minutes=1), priority=-1)
    sql.new_job(delay=timedelta(minutes=3))
    sql.pause_queue(queue="q")

    assert _stats(sql) == {
        "queue": "q",
        "paused": True,
        "ready": 2,
        "delayed": 3,
        "held": 1,
        "running": 1,
        "failed": 3,
        "oldest_ready_age": timedelta(seconds=10),
        "next_due_at": clock.now + timedelta(minutes=1),
    }


def test_lists_every_queue_that_has_something_by_name(sql: Contract, clock: Clock) -> None:
    sql.new_job(queue="ready")
    sql.new_job(queue="delayed", delay=timedelta(hours=1))
    sql.new_attempt(queue="running", concurrency_key="k")
    sql.new_job(queue="held", concurrency_key="k")
    assert sql.claim(queues=["held"], worker_id="w") == []
    attempt = sql.new_attempt(queue="failed")
    sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom", retryable=False)
    done = sql.new_attempt(queue="succeeded")
    sql.complete(job_id=done["job_id"], attempt_id=done["attempt_id"])
    sql.set_queue(queue="known")

    assert [row["queue"] for row in sql.queue_stats()] == [
        "delayed",
        "failed",
        "held",
        "known",
        "ready",
        "running",
    ]
    assert sql.queue_stats() == [_stats(sql, row["queue"]) for row in sql.queue_stats(queue=None)]


@pytest.mark.parametrize("state", ["ready", "delayed", "held", "running", "failed"])
def test_stops_counting_at_ten_thousand_and_one(sql: Contract, state: str) -> None:
    place = {"running": "running", "failed": "finished"}.get(state, "ready")
    columns = {
        "ready": ("", ""),
        "delayed": ("", ""),
        "held": (", hold", ", 'key'"),
        "running": (
            ", attempt_id, worker_id, claimed_at, lease, lease_expires_at, attempt_count, failure_count, "
            "expiry_streak, snooze_count, is_unique, is_ordered, watched",
            ", n, 'w', now(), '1 min', now() + interval '1 min', 1, 0, 0, 0, false, false, false",
        ),
        "failed": (
            ", status, outcome, finished_at, purge_at, attempt_count, failure_count, expiry_streak, snooze_count, "
            "is_unique, is_ordered, watched",
            ", 'failed', 'poison', now(), now() + interval '1 day', 1, 0, 0, 0, false, false, false",
        ),
    }[state]
    at = "now() + interval '1 hour'" if state == "delayed" else "now()"
    sql.run(
        "with job as (insert into taskq.jobs (id, queue, task, payload, priority, concurrency_key, max_attempts, "
        "backoff, backoff_max, lease, created_at, enqueued_by) "
        "select n, 'q', 't', '{}', 0, 'k', 5, '0', '0', '1 min', now(), 'me' from generate_series(1, 10005) as n "
        "returning id as n) "
        f"insert into taskq.{place} (id, queue, task, priority, scheduled_at, concurrency_key{columns[0]}) "
        f"select n, 'q', 't', 0, {at}, 'k'{columns[1]} from job"
    )

    assert _stats(sql)[state] == 10_001
