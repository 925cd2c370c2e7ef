"""The single form `complete`. The situations of all verbs are in test_settle_table.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract

COLUMNS = ["job_id", "attempt_id", "result", "status", "scheduled_at", "reason"]


def test_returns_the_columns_of_settle(sql: Contract) -> None:
    assert sql.columns("complete", job_id=1, attempt_id=1) == COLUMNS


def test_ends_the_job_as_succeeded(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(payload={"n": 1})
    clock.forward(seconds=3)
    [row] = sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], result={"rows": 7})
    job = sql.job(attempt["job_id"])

    assert row == {
        "job_id": attempt["job_id"],
        "attempt_id": attempt["attempt_id"],
        "result": "ok",
        "status": "succeeded",
        "scheduled_at": None,
        "reason": None,
    }
    assert (job["status"], job["outcome"], job["result"]) == ("succeeded", "success", {"rows": 7})
    assert (job["finished_at"], job["purge_at"]) == (clock.now, clock.now + timedelta(days=2))
    assert (job["worker_id"], job["claimed_at"]) == ("w", clock.now - timedelta(seconds=3))
    assert (job["error"], job["reason"], job["payload"]) == (None, None, {"n": 1})


@pytest.mark.parametrize("value", [{"a": None}, [], [1, "é"], "text", "", 0, 1.5, True, False])
def test_stores_any_json_value(sql: Contract, value: Any) -> None:
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], result=Jsonb(value))

    assert sql.job(attempt["job_id"])["result"] == value


@pytest.mark.parametrize("value", [None, Jsonb(None)])
def test_a_null_is_no_result(sql: Contract, value: Any) -> None:
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], result=value)

    assert sql.job(attempt["job_id"])["result"] is None


@pytest.mark.parametrize("ids", [{"job_id": None}, {"attempt_id": None}])
def test_rejects_a_missing_id(sql: Contract, ids: dict[str, None]) -> None:
    [row] = sql.complete(**{"job_id": 1, "attempt_id": 1, **ids})
    assert (row["result"], row["reason"]) == ("rejected", "job_id and attempt_id are required")


def test_rejects_a_result_over_the_cap_and_leaves_the_attempt(sql: Contract) -> None:
    attempt = sql.new_attempt()
    [row] = sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], result=Jsonb("x" * 8191))

    assert (row["result"], row["reason"]) == ("rejected", "a result of 8193 bytes is over the cap of 8192")
    assert sql.job(attempt["job_id"])["status"] == "running"


def test_keeps_the_last_checkpoint_for_people(sql: Contract) -> None:
    attempt = sql.new_attempt()
    ids = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}
    sql.heartbeat(
        worker_id="w",
        job_ids=[ids["job_id"]],
        attempt_ids=[ids["attempt_id"]],
        progress={str(ids["job_id"]): {"page": 3}},
    )
    sql.complete(**ids)

    assert sql.job(ids["job_id"])["progress"] == {"page": 3}


def test_commits_with_the_rows_of_the_caller(sql: Contract, other: Contract) -> None:
    """The handler's rows and the completion are seen together, or neither."""
    attempt = sql.new_attempt()
    with sql.conn.transaction():
        sql.run("create table public.effect as select 1")
        sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
        assert other.job(attempt["job_id"])["status"] == "running"
    assert other.job(attempt["job_id"])["status"] == "succeeded"
    sql.run("drop table public.effect")
