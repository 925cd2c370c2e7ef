"""Asking a worker to stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.contract import Contract, refused

INFO = {"queues": ["q"], "state": "running"}


def test_returns_worker_and_result(sql: Contract) -> None:
    sql.announce(worker_id="w", info=INFO)
    assert sql.columns("stop_worker", worker_id="w") == ["worker_id", "result"]


def test_asks_once_and_the_worker_hears_it(sql: Contract) -> None:
    for worker_id in ("w", "v"):
        sql.announce(worker_id=worker_id, info=INFO)
    assert sql.stop_worker(worker_id="w") == [{"worker_id": "w", "result": "requested"}]
    assert sql.stop_worker(worker_id="w") == [{"worker_id": "w", "result": "already_requested"}]

    assert sql.announce(worker_id="w", info=INFO)[0]["stop_requested"] is True
    assert sql.announce(worker_id="v", info=INFO)[0]["stop_requested"] is False


def test_calls_the_worker_by_a_payload_that_is_the_name_of_no_queue(
    sql: Contract, heard: Callable[[], list[str]]
) -> None:
    sql.announce(worker_id="w", info=INFO)
    sql.stop_worker(worker_id="w")

    assert heard() == ["\tw"]
    with refused("TQ422", "a queue name "):
        sql.new_job(queue="\tw")


def test_leaves_its_jobs_alone(sql: Contract) -> None:
    sql.announce(worker_id="w", info=INFO)
    attempt = sql.new_attempt()
    sql.stop_worker(worker_id="w")
    assert sql.job(attempt["job_id"])["status"] == "running"


def test_leaves_an_audit_row_for_every_call(sql: Contract) -> None:
    sql.announce(worker_id="w", info=INFO)
    sql.stop_worker(worker_id="w", actor="ann", reason="deploy")
    sql.stop_worker(worker_id="w")

    assert sql.rows("select actor, verb, target, reason, detail from taskq.audit order by id") == [
        {
            "actor": "ann",
            "verb": "stop_worker",
            "target": "worker w",
            "reason": "deploy",
            "detail": {"result": "requested"},
        },
        {
            "actor": sql.value("select session_user"),
            "verb": "stop_worker",
            "target": "worker w",
            "reason": None,
            "detail": {"result": "already_requested"},
        },
    ]


@pytest.mark.parametrize("worker_id", [None, "", "nobody"])
def test_refuses_a_worker_that_is_not_there(sql: Contract, worker_id: str | None) -> None:
    with refused(
        "TQ001", f"no worker {'null' if worker_id is None else worker_id}", hint="a new one at each start"
    ):
        sql.stop_worker(worker_id=worker_id)
    assert sql.rows("select from taskq.audit") == []


def test_refuses_a_worker_that_has_ended(sql: Contract) -> None:
    sql.announce(worker_id="w", info=INFO)
    sql.announce(worker_id="w", info={"state": "stopped"})
    with refused("TQ001", "no worker w"):
        sql.stop_worker(worker_id="w")
