"""Purging a queue: what waits in it is cancelled, in bounded calls."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Contract, refused


def _ids(rows: list[dict[str, object]]) -> list[object]:
    return [row["job_id"] for row in rows]


def test_returns_job_id_result_and_status(sql: Contract) -> None:
    assert sql.columns("purge_queue", queue="q") == ["job_id", "result", "status"]


def test_cancels_what_waits_for_whatever_and_nothing_else(sql: Contract) -> None:
    running = sql.new_attempt(concurrency_key="k")
    held = sql.new_job(concurrency_key="k")
    assert sql.claim(queues=["q"], worker_id="w") == []
    waiting = [held, sql.new_job(), sql.new_job(delay=timedelta(hours=1)), sql.new_job(unique_key="u")]
    elsewhere = sql.new_job(queue="other")
    sql.pause_queue(queue="q")

    rows = sql.purge_queue(queue="q", reason="a bad deploy")
    assert sorted(_ids(rows)) == sorted(waiting)
    assert {(row["result"], row["status"]) for row in rows} == {("cancelled", "cancelled")}
    for job_id in waiting:
        job = sql.job(job_id)
        assert (job["status"], job["outcome"], job["reason"]) == ("cancelled", "cancelled", "a bad deploy")
    assert sql.job(running["job_id"])["status"] == "running"
    assert sql.job(elsewhere)["status"] == "queued"
    assert sql.enqueue(queue="q", task="t", unique_key="u")[0]["status"] == "created"


def test_is_bounded_and_goes_on_where_it_stopped(sql: Contract) -> None:
    jobs = {sql.new_job() for _ in range(5)}

    calls = [_ids(sql.purge_queue(queue="q", limit=2)) for _ in range(4)]
    assert [len(each) for each in calls] == [2, 2, 1, 0]
    assert {job_id for each in calls for job_id in each} == jobs


def test_passes_over_what_somebody_has_locked_and_takes_the_rest(sql: Contract, other: Contract) -> None:
    first, second = sql.new_job(), sql.new_job()

    with other.conn.transaction():
        assert _ids(other.claim(queues=["q"], worker_id="w")) == [first]
        assert _ids(sql.purge_queue(queue="q", limit=1)) == [second]
    assert sql.job(first)["status"] == "running"


def test_the_others_of_a_key_are_not_left_on_hold(sql: Contract) -> None:
    """The row that was brought back for its key is cancelled: those in another queue must not wait for it."""
    attempt = sql.new_attempt(concurrency_key="k")
    sql.new_job(concurrency_key="k")
    in_other = sql.new_job(queue="other", concurrency_key="k")
    assert sql.claim(queues=["q", "other"], worker_id="w") == []
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

    sql.purge_queue(queue="q")
    assert sql.take("other")["job_id"] == in_other


def test_leaves_one_audit_row(sql: Contract) -> None:
    sql.new_job()
    sql.purge_queue(queue="q", actor="ann", reason="a bad deploy")

    assert sql.rows("select actor, verb, target, reason, detail from taskq.audit") == [
        {
            "actor": "ann",
            "verb": "purge_queue",
            "target": "queue q",
            "reason": "a bad deploy",
            "detail": {"cancelled": 1},
        }
    ]


@pytest.mark.parametrize("limit", [0, -1, 10_001, None])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    with refused("TQ422", "of purge_queue is outside 1 to 10000"):
        sql.purge_queue(queue="q", limit=limit)


@pytest.mark.parametrize("queue", ["", None, "x" * 121])
def test_refuses_a_bad_name(sql: Contract, queue: str | None) -> None:
    with refused("TQ422", "queue"):
        sql.purge_queue(queue=queue)
