"""The policy of a queue: what a job gets that names none of its own."""

# Scenario B54.

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from kit.contract import Clock, Contract, refused

POLICY: dict[str, Any] = {
    "max_attempts": 3,
    "backoff": timedelta(seconds=2),
    "backoff_max": timedelta(minutes=1),
    "lease": timedelta(seconds=20),
    "ttl": timedelta(hours=1),
    "retention_succeeded": timedelta(hours=2),
    "retention_cancelled": timedelta(hours=3),
    "retention_failed": timedelta(hours=4),
}


def _policy(sql: Contract, queue: str = "q") -> dict[str, Any]:
    [row] = sql.rows("select * from taskq.queues where name = %s", queue)
    return {name: row[name] for name in POLICY}


def test_returns_queue_and_version(sql: Contract) -> None:
    assert sql.columns("set_queue", queue="q") == ["queue", "version"]


def test_makes_the_queue(sql: Contract) -> None:
    assert sql.set_queue(queue="q", **POLICY) == [{"queue": "q", "version": 1}]
    assert _policy(sql) == POLICY


def test_counts_the_edits(sql: Contract) -> None:
    assert [sql.set_queue(queue="q", **POLICY)[0]["version"] for _ in range(3)] == [1, 2, 3]


def test_leaves_what_is_null_as_it_is(sql: Contract) -> None:
    sql.set_queue(queue="q", **POLICY)
    sql.set_queue(queue="q")
    sql.set_queue(queue="q", **dict.fromkeys(POLICY))

    assert _policy(sql) == POLICY


@pytest.mark.parametrize("name", POLICY)
def test_sets_one_policy_and_no_other(sql: Contract, name: str) -> None:
    sql.set_queue(queue="q", **{name: POLICY[name]})

    assert _policy(sql) == {**dict.fromkeys(POLICY), name: POLICY[name]}


@pytest.mark.parametrize("name", POLICY)
def test_resets_one_policy_and_no_other(sql: Contract, name: str) -> None:
    sql.set_queue(queue="q", **POLICY)
    sql.set_queue(queue="q", reset=[name])

    assert _policy(sql) == {**POLICY, name: None}


def test_sets_what_it_resets_and_is_given(sql: Contract) -> None:
    sql.set_queue(queue="q", max_attempts=3)
    sql.set_queue(queue="q", max_attempts=4, reset=["max_attempts"])

    assert _policy(sql)["max_attempts"] == 4


def test_a_null_list_resets_nothing(sql: Contract) -> None:
    sql.set_queue(queue="q", **POLICY)
    sql.set_queue(queue="q", reset=None)

    assert _policy(sql) == POLICY


def test_never_changes_jobs_that_are_already_there(sql: Contract) -> None:
    sql.set_queue(queue="q", **POLICY)
    job_id = sql.new_job()
    before = sql.job(job_id)
    sql.set_queue(queue="q", max_attempts=9, backoff=timedelta(0), lease=timedelta(hours=1), reset=["ttl"])

    assert sql.job(job_id) == before
    assert sql.take()["lease"] == POLICY["lease"]


@pytest.mark.parametrize(("end", "retention"), [("succeeded", 2), ("cancelled", 3), ("failed", 4)])
def test_stamps_retention_when_a_job_ends(sql: Contract, clock: Clock, end: str, retention: int) -> None:
    attempt = sql.new_attempt()
    sql.set_queue(queue="q", **POLICY)
    ids = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}
    if end == "succeeded":
        sql.complete(**ids)
    elif end == "cancelled":
        sql.cancel_attempt(**ids)
    else:
        sql.fail(**ids, error="boom", retryable=False)

    assert sql.job(attempt["job_id"])["purge_at"] == clock.now + timedelta(hours=retention)


def test_keeps_an_ended_job_for_ten_minutes_at_least(sql: Contract, clock: Clock) -> None:
    """A worker that repeats a settle after a lost reply must still find the job."""
    sql.set_queue(queue="q", retention_succeeded=timedelta(0), retention_cancelled=timedelta(0))
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    waiting = sql.new_job()
    sql.cancel_job(job_id=waiting)

    assert sql.job(attempt["job_id"])["purge_at"] == clock.now + timedelta(minutes=10)
    assert sql.job(waiting)["purge_at"] == clock.now + timedelta(minutes=10)


def test_leaves_an_audit_row(sql: Contract, clock: Clock) -> None:
    sql.set_queue(queue="q", max_attempts=3, actor="ann", reason="flaky partner")

    [row] = sql.rows("select at, actor, session_role, verb, target, reason, detail from taskq.audit")
    assert row == {
        "at": clock.now,
        "actor": "ann",
        "session_role": sql.value("select session_user"),
        "verb": "set_queue",
        "target": "queue q",
        "reason": "flaky partner",
        "detail": {"version": 1},
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queue": None}, "a queue name is required"),
        ({"queue": ""}, "a queue name is required"),
        ({"queue": "q" * 121}, "a queue name of 121 bytes is over the cap of 120"),
        ({"max_attempts": 0}, "max_attempts 0 is outside 1 to 100000"),
        ({"backoff": timedelta(days=367)}, "backoff 367 days is outside 0 to 366 days"),
        ({"backoff_max": timedelta(days=367)}, "backoff_max 367 days is outside 0 to 366 days"),
        ({"lease": timedelta(0)}, "lease 00:00:00 is outside 0.1 s to 1 day"),
        ({"ttl": timedelta(0)}, "ttl 00:00:00 is outside 0 to 366 days"),
        ({"retention_succeeded": timedelta(seconds=-1)}, "a retention is outside 0 to 3660 days"),
        ({"retention_cancelled": timedelta(days=3661)}, "a retention is outside 0 to 3660 days"),
        ({"retention_failed": timedelta(days=3661)}, "a retention is outside 0 to 3660 days"),
        ({"reset": ["max_attempt"]}, "p_reset may name max_attempts, backoff"),
        ({"reset": ["ttl", None]}, "p_reset may name "),
    ],
)
def test_refuses_what_is_out_of_bounds(sql: Contract, arguments: dict[str, Any], message: str) -> None:
    with refused("TQ422", message):
        sql.set_queue(**{"queue": "q", **arguments})
    assert sql.rows("select from taskq.queues") == []


def test_two_edits_at_once_both_count(sql: Contract, other: Contract, wait_until_blocked) -> None:
    with ThreadPoolExecutor(1) as pool:
        with sql.conn.transaction():
            sql.set_queue(queue="q", max_attempts=3)
            second = pool.submit(lambda: other.set_queue(queue="q", backoff=timedelta(seconds=5)))
            wait_until_blocked(other.conn)
        assert second.result() == [{"queue": "q", "version": 2}]

    assert (_policy(sql)["max_attempts"], _policy(sql)["backoff"]) == (3, timedelta(seconds=5))
