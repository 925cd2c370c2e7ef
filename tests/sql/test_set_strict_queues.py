"""Whether a queue must be known before a job may enter it. What enqueue makes of it is in test_enqueue.py."""

from __future__ import annotations

import pytest

from kit.contract import Contract, refused


def test_returns_strict(sql: Contract) -> None:
    assert sql.columns("set_strict_queues", strict=True) == ["strict"]


@pytest.mark.parametrize("strict", [True, False])
def test_says_what_holds_now_also_twice(sql: Contract, strict: bool) -> None:
    for _ in range(2):
        assert sql.set_strict_queues(strict=strict) == [{"strict": strict}]
    assert sql.value("select strict_queues from taskq.settings") is strict


def test_unknown_queues_are_taken_again_once_it_is_off(sql: Contract) -> None:
    sql.set_strict_queues(strict=True)
    with refused("TQ001"):
        sql.new_job()
    sql.set_strict_queues(strict=False)

    assert sql.new_job()


def test_jobs_that_are_already_there_still_run(sql: Contract) -> None:
    job_id = sql.new_job()
    sql.set_strict_queues(strict=True)

    assert sql.take()["job_id"] == job_id


def test_leaves_an_audit_row(sql: Contract) -> None:
    sql.set_strict_queues(strict=True, actor="ann", reason="typos")

    assert sql.rows("select actor, verb, target, reason, detail from taskq.audit") == [
        {
            "actor": "ann",
            "verb": "set_strict_queues",
            "target": "schema",
            "reason": "typos",
            "detail": {"strict": True},
        }
    ]


def test_refuses_null(sql: Contract) -> None:
    with refused("TQ422", "p_strict must be true or false"):
        sql.set_strict_queues(strict=None)
