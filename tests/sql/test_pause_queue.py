"""Pausing a queue: it takes in jobs and hands none out."""

from __future__ import annotations

import pytest

from kit.contract import Clock, Contract, refused


def test_returns_queue_and_result(sql: Contract) -> None:
    assert sql.columns("pause_queue", queue="q") == ["queue", "result"]


def test_pauses_once(sql: Contract) -> None:
    assert sql.pause_queue(queue="q") == [{"queue": "q", "result": "paused"}]
    assert sql.pause_queue(queue="q") == [{"queue": "q", "result": "already_paused"}]


def test_takes_in_jobs_and_hands_none_out(sql: Contract) -> None:
    sql.pause_queue(queue="q")
    job_id = sql.new_job()

    assert sql.claim(queues=["q"], worker_id="w") == []
    sql.resume_queue(queue="q")
    assert sql.take()["job_id"] == job_id


def test_running_jobs_go_on(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.pause_queue(queue="q")
    ids = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}

    [beat] = sql.heartbeat(worker_id="w", job_ids=[ids["job_id"]], attempt_ids=[ids["attempt_id"]])
    [settled] = sql.complete(**ids)
    assert (beat["state"], settled["result"]) == ("ok", "ok")


def test_keeps_the_policy_of_the_queue_and_the_policy_keeps_the_pause(sql: Contract) -> None:
    sql.set_queue(queue="q", max_attempts=3)
    sql.pause_queue(queue="q")
    sql.set_queue(queue="q", max_attempts=4)

    assert sql.job(sql.new_job())["max_attempts"] == 4
    assert sql.queue_stats(queue="q")[0]["paused"] is True


def test_leaves_an_audit_row_for_every_call(sql: Contract, clock: Clock) -> None:
    sql.pause_queue(queue="q", actor="ann", reason="deploy")
    sql.pause_queue(queue="q")

    assert sql.rows("select actor, verb, target, reason, detail from taskq.audit order by id") == [
        {
            "actor": "ann",
            "verb": "pause_queue",
            "target": "queue q",
            "reason": "deploy",
            "detail": {"result": "paused"},
        },
        {
            "actor": sql.value("select session_user"),
            "verb": "pause_queue",
            "target": "queue q",
            "reason": None,
            "detail": {"result": "already_paused"},
        },
    ]


@pytest.mark.parametrize("queue", [None, "", "q" * 121, "a\tb"])
def test_refuses_a_bad_name(sql: Contract, queue: str | None) -> None:
    with refused("TQ422", "a queue name "):
        sql.pause_queue(queue=queue)
