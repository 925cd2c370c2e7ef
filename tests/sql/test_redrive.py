"""Putting an ended job back: a new budget, and everything else as it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row, refused


def _redrive(sql: Contract, job_id: int, **arguments: Any) -> tuple[str, str]:
    [row] = sql.redrive(job_id=job_id, **arguments)
    assert row["job_id"] == job_id
    return row["result"], row["status"]


def _fail(sql: Contract, attempt: Row, **arguments: Any) -> Row:
    [row] = sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], **arguments)
    return row


def _dead(sql: Contract, **options: Any) -> Row:
    """Return the attempt of a job that has failed for good."""
    attempt = sql.new_attempt(**options)
    assert _fail(sql, attempt, error="boom", retryable=False)["result"] == "dead"
    return attempt


def test_returns_job_id_result_and_status(sql: Contract) -> None:
    assert sql.columns("redrive", job_id=_dead(sql)["job_id"]) == ["job_id", "result", "status"]


def test_a_failed_job_is_due_now_with_a_new_budget(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(max_attempts=2, backoff=timedelta(0))
    _fail(sql, attempt, error="one")
    assert _fail(sql, sql.take(), error="two")["result"] == "dead"
    clock.forward(days=3)

    assert _redrive(sql, attempt["job_id"]) == ("redriven", "queued")
    job = sql.job(attempt["job_id"])
    assert (job["status"], job["outcome"], job["scheduled_at"]) == ("queued", None, clock.now)
    assert (job["attempt_count"], job["failure_count"], job["expiry_streak"]) == (2, 0, 0)
    assert _fail(sql, sql.take(), error="three")["result"] == "retry_scheduled"
    assert _fail(sql, sql.take(), error="four")["result"] == "dead"


def test_the_history_is_kept(sql: Contract) -> None:
    first = _dead(sql)
    _redrive(sql, first["job_id"])
    second = sql.take()
    _fail(sql, second, error="again", retryable=False)

    rows = sql.job_history(job_id=first["job_id"])
    assert [
        (row["attempt_id"], row["verb"], row["status"], row["outcome"], row["error"]) for row in rows
    ] == [
        (first["attempt_id"], "fail", "failed", "non_retryable", "boom"),
        (second["attempt_id"], "fail", "failed", "non_retryable", "again"),
    ]
    assert second["attempt_id"] > first["attempt_id"]


def test_a_suspect_is_none_any_more(sql: Contract) -> None:
    job_id = sql.new_job()
    for _ in range(3):
        sql.take()
        sql.run_out(job_id)
        sql.take_back()
        if sql.job(job_id)["status"] == "queued":
            sql.make_due(job_id)
    assert sql.job(job_id)["outcome"] == "poison"

    assert _redrive(sql, job_id) == ("redriven", "queued")
    assert sql.take()["expiry_streak"] == 0


@pytest.mark.parametrize("how", ["cancelled while queued", "cancelled by its handler", "expired"])
def test_a_cancelled_job_may_be_put_back_too(sql: Contract, clock: Clock, how: str) -> None:
    if how == "cancelled by its handler":
        attempt = sql.new_attempt()
        job_id = attempt["job_id"]
        sql.cancel_attempt(job_id=job_id, attempt_id=attempt["attempt_id"])
    else:
        job_id = sql.new_job(ttl=timedelta(minutes=1))
        if how == "expired":
            clock.forward(minutes=2)
            sql.expire_ttl()
        else:
            sql.cancel_job(job_id=job_id)
    assert sql.job(job_id)["status"] == "cancelled"

    assert _redrive(sql, job_id) == ("redriven", "queued")
    assert sql.take()["job_id"] == job_id


def test_options_and_what_travels_stay(sql: Contract) -> None:
    options = {
        "payload": {"user": 7},
        "headers": {"trace": "x"},
        "priority": 9,
        "concurrency_key": "k",
        "lease": timedelta(seconds=20),
        "backoff": timedelta(seconds=3),
        "unique_key": "u",
    }
    attempt = sql.new_attempt(**options)
    _fail(sql, attempt, error="boom", retryable=False, progress=Jsonb([1]))
    _redrive(sql, attempt["job_id"])

    again = sql.take()
    assert {name: again[name] for name in options if name in again} == {
        name: value for name, value in options.items() if name in again
    }
    assert again["progress"] == [1]


def test_the_time_to_live_starts_anew(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(ttl=timedelta(minutes=1))
    clock.forward(minutes=5)
    sql.expire_ttl()

    _redrive(sql, job_id)
    assert sql.job(job_id)["expires_at"] == clock.now + timedelta(minutes=1)


def test_a_live_job_is_left_alone(sql: Contract) -> None:
    job_id = sql.new_job()
    before = sql.job(job_id)
    assert _redrive(sql, job_id) == ("already_live", "queued")
    assert sql.job(job_id) == before
    sql.take()
    assert _redrive(sql, job_id) == ("already_live", "running")


def test_a_second_redrive_changes_nothing(sql: Contract) -> None:
    job_id = _dead(sql)["job_id"]
    assert _redrive(sql, job_id) == ("redriven", "queued")
    assert _redrive(sql, job_id) == ("already_live", "queued")


def test_refuses_a_job_that_succeeded(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

    with refused("TQ409", f"job {attempt['job_id']} has succeeded", hint="enqueue a new one"):
        sql.redrive(job_id=attempt["job_id"])
    assert sql.job(attempt["job_id"])["status"] == "succeeded"


@pytest.mark.parametrize("job_id", [987654321, None, -1])
def test_refuses_what_is_not_there(sql: Contract, job_id: int | None) -> None:
    with refused("TQ001", "no job"):
        sql.redrive(job_id=job_id)


@pytest.mark.broken_integrity
def test_a_job_without_its_request_is_not_dropped(sql: Contract) -> None:
    job_id = _dead(sql)["job_id"]
    sql.run("delete from taskq.jobs where id = %s", job_id)

    with refused("TQ500", f"job {job_id} has no request"):
        sql.redrive(job_id=job_id)
    assert sql.value("select status from taskq.finished where id = %s", job_id) == "failed"


# -- uniqueness: B36 -------------------------------------------------------------------------------------------


def test_takes_its_unique_key_back(sql: Contract) -> None:
    job_id = _dead(sql, unique_key="u")["job_id"]
    _redrive(sql, job_id)

    assert sql.enqueue(queue="q", task="t", unique_key="u") == [{"status": "existed", "job_id": job_id}]


def test_a_live_holder_keeps_the_key_and_nothing_is_changed(sql: Contract) -> None:
    job_id = _dead(sql, unique_key="u")["job_id"]
    holder = sql.new_job(unique_key="u")
    before = sql.job(job_id)

    assert _redrive(sql, job_id) == ("key_taken", "failed")
    assert sql.job(job_id) == before
    sql.cancel_job(job_id=holder)
    assert _redrive(sql, job_id) == ("redriven", "queued")


def test_a_key_that_counts_on_after_the_end_of_another_job_is_taken(sql: Contract, clock: Clock) -> None:
    job_id = _dead(sql, unique_key="u")["job_id"]
    _dead(sql, unique_key="u", unique_for=timedelta(hours=1))

    assert _redrive(sql, job_id) == ("key_taken", "failed")
    clock.forward(hours=1)
    assert _redrive(sql, job_id) == ("redriven", "queued")


def test_a_key_that_counts_for_a_while_is_still_its_own(sql: Contract, clock: Clock) -> None:
    job_id = _dead(sql, unique_key="u", unique_for=timedelta(hours=1))["job_id"]

    assert _redrive(sql, job_id) == ("redriven", "queued")
    clock.forward(hours=2)
    assert sql.enqueue(queue="q", task="t", unique_key="u") == [{"status": "existed", "job_id": job_id}]


def test_the_scope_of_its_key_is_the_one_it_had(sql: Contract) -> None:
    job_id = _dead(sql, unique_key="u", unique_scope="waiting")["job_id"]
    _redrive(sql, job_id)

    assert sql.enqueue(queue="q", task="t", unique_key="u") == [{"status": "existed", "job_id": job_id}]
    sql.take()
    [row] = sql.enqueue(queue="q", task="t", unique_key="u")
    assert row["status"] == "created"


def test_a_free_key_that_counts_for_a_while_is_held_again(sql: Contract, clock: Clock) -> None:
    """Its start had set the key free; put back, it waits again."""
    job_id = _dead(sql, unique_key="u", unique_scope="waiting", unique_for=timedelta(hours=1))["job_id"]
    assert _redrive(sql, job_id) == ("redriven", "queued")
    clock.forward(hours=2)

    assert sql.enqueue(queue="q", task="t", unique_key="u", unique_scope="waiting") == [
        {"status": "existed", "job_id": job_id}
    ]


def test_a_job_that_lost_its_key_to_a_follower_asks_for_it_again(sql: Contract) -> None:
    attempt = sql.new_attempt(unique_key="u", unique_scope="waiting")
    follower = sql.new_job(unique_key="u", unique_scope="waiting")
    _fail(sql, attempt, error="boom", retryable=False)

    assert _redrive(sql, attempt["job_id"]) == ("key_taken", "failed")
    sql.cancel_job(job_id=follower)
    assert _redrive(sql, attempt["job_id"]) == ("redriven", "queued")
    assert sql.enqueue(queue="q", task="t", unique_key="u") == [
        {"status": "existed", "job_id": attempt["job_id"]}
    ]


# -- keys ------------------------------------------------------------------------------------------------------


def test_an_ordered_job_goes_before_the_younger_ones_that_wait(sql: Contract) -> None:
    first = _dead(sql, concurrency_key="k", ordered=True)["job_id"]
    second, third = (sql.new_job(concurrency_key="k", ordered=True) for _ in range(2))
    running = sql.take()
    assert running["job_id"] == second
    _redrive(sql, first)

    assert sql.claim(queues=["q"], worker_id="w") == []
    sql.complete(job_id=second, attempt_id=running["attempt_id"])
    assert sql.take()["job_id"] == first
    assert sql.claim(queues=["q"], worker_id="w") == []
    assert sql.job(third)["status"] == "queued"


def test_a_keyed_job_waits_for_its_limit(sql: Contract) -> None:
    job_id = _dead(sql, concurrency_key="k")["job_id"]
    running = sql.new_attempt(concurrency_key="k")
    _redrive(sql, job_id)

    assert sql.claim(queues=["q"], worker_id="w") == []
    sql.complete(job_id=running["job_id"], attempt_id=running["attempt_id"])
    assert sql.take()["job_id"] == job_id


# -- the rest --------------------------------------------------------------------------------------------------


def test_an_old_verdict_finds_what_it_did(sql: Contract) -> None:
    attempt = _dead(sql)
    _redrive(sql, attempt["job_id"])
    own = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}

    assert sql.fail(**own, error="boom")[0]["result"] == "already_settled"
    assert sql.complete(**own)[0]["result"] == "settle_conflict"
    assert sql.attempt_state(**own) == [{"state": "settled", "status": "failed"}]


def test_a_bound_on_the_queue_does_not_stop_it(sql: Contract) -> None:
    job_id = _dead(sql)["job_id"]
    sql.set_queue(queue="q", max_depth=1)
    sql.new_job()

    assert _redrive(sql, job_id) == ("redriven", "queued")


def test_wakes_the_workers_of_its_queue(sql: Contract, heard: Callable[[], list[str]]) -> None:
    job_id = _dead(sql)["job_id"]
    heard()
    _redrive(sql, job_id)

    assert heard() == ["q"]


def test_leaves_an_audit_row(sql: Contract) -> None:
    job_id = _dead(sql)["job_id"]
    _redrive(sql, job_id, actor="ann", reason="the provider is back")

    [row] = sql.rows("select actor, verb, target, reason, detail from taskq.audit")
    assert row == {
        "actor": "ann",
        "verb": "redrive",
        "target": f"job {job_id}",
        "reason": "the provider is back",
        "detail": {"result": "redriven"},
    }
