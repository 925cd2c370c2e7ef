"""Resuming a paused queue: its workers are woken."""

from __future__ import annotations

import pytest

from kit.contract import Contract, refused


def test_returns_queue_and_result(sql: Contract) -> None:
    assert sql.columns("resume_queue", queue="q") == ["queue", "result"]


def test_resumes_once(sql: Contract) -> None:
    sql.pause_queue(queue="q")

    assert sql.resume_queue(queue="q") == [{"queue": "q", "result": "resumed"}]
    assert sql.resume_queue(queue="q") == [{"queue": "q", "result": "not_paused"}]


def test_an_unknown_queue_is_not_paused_and_stays_unknown(sql: Contract) -> None:
    assert sql.resume_queue(queue="q") == [{"queue": "q", "result": "not_paused"}]
    assert sql.queue_stats() == []


def test_wakes_the_workers_when_it_changes_something(sql: Contract, heard) -> None:
    sql.resume_queue(queue="q")
    assert heard() == []
    sql.pause_queue(queue="q")
    assert heard() == []
    sql.resume_queue(queue="q")
    assert heard() == ["q"]


def test_leaves_an_audit_row(sql: Contract) -> None:
    sql.resume_queue(queue="q", actor="ann", reason="deployed")

    assert sql.rows("select actor, verb, target, reason, detail from taskq.audit") == [
        {
            "actor": "ann",
            "verb": "resume_queue",
            "target": "queue q",
            "reason": "deployed",
            "detail": {"result": "not_paused"},
        }
    ]


@pytest.mark.parametrize("queue", [None, "", "q" * 121])
def test_refuses_a_bad_name(sql: Contract, queue: str | None) -> None:
    with refused("TQ422", "a queue name "):
        sql.resume_queue(queue=queue)
