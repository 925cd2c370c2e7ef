"""`complete_many`: what `settle` does with a document of plain completes, by two lists."""

from __future__ import annotations

from typing import Any

import pytest

from kit.contract import Contract, Row, refused


def _lists(*attempts: Row) -> dict[str, Any]:
    ids = [each["job_id"] for each in attempts], [each["attempt_id"] for each in attempts]
    return {"worker_id": "w", "job_ids": ids[0], "attempt_ids": ids[1]}


def test_ends_the_jobs_as_settle_does(sql: Contract) -> None:
    attempts = [sql.new_attempt(), sql.new_attempt(concurrency_key="k"), sql.new_attempt(unique_key="u")]

    assert sql.complete_many(**_lists(*attempts)) == [
        {
            "job_id": each["job_id"],
            "attempt_id": each["attempt_id"],
            "result": "ok",
            "status": "succeeded",
            "scheduled_at": None,
            "reason": None,
        }
        for each in attempts
    ]
    for each in attempts:
        job = sql.job(each["job_id"])
        assert (job["status"], job["outcome"], job["result"]) == ("succeeded", "success", None)
        assert [row["worker_id"] for row in sql.job_history(job_id=each["job_id"])] == ["w"]
    assert sql.rows("select from taskq.unique_keys") == []


def test_answers_in_the_order_of_the_lists_whatever_counts(sql: Contract) -> None:
    released, asked, twice, unknown = (sql.new_attempt() for _ in range(4))
    sql.release(job_id=released["job_id"], attempt_id=released["attempt_id"])
    sql.cancel_job(job_id=asked["job_id"])
    unknown = {**unknown, "attempt_id": unknown["attempt_id"] + 1000}

    rows = sql.complete_many(**_lists(twice, unknown, released, twice, asked))

    assert [row["job_id"] for row in rows] == [
        each["job_id"] for each in (twice, unknown, released, twice, asked)
    ]
    assert [(row["result"], row["status"]) for row in rows] == [
        ("ok", "succeeded"),
        ("lost", None),
        ("settle_conflict", "queued"),
        ("already_settled", "succeeded"),
        ("ok", "succeeded"),
    ]


def test_answers_nothing_for_nothing(sql: Contract) -> None:
    assert sql.complete_many(worker_id="w", job_ids=[], attempt_ids=[]) == []


def test_takes_ten_thousand_and_no_more(sql: Contract) -> None:
    many = list(range(10_000))
    rows = sql.complete_many(worker_id="w", job_ids=many, attempt_ids=many)
    assert {row["result"] for row in rows} == {"lost"}

    with refused("TQ422", "10001 attempts in one call are over the cap of 10000"):
        sql.complete_many(worker_id="w", job_ids=[*many, 1], attempt_ids=[*many, 1])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"job_ids": [1]}, "equal length"),
        ({"job_ids": None}, "equal length"),
        ({"attempt_ids": None}, "equal length"),
        ({"job_ids": [1, None]}, "without null"),
        ({"attempt_ids": [1, None]}, "without null"),
        ({"job_ids": [[1, 2]]}, "plain lists"),
        ({"worker_id": ""}, "p_worker_id"),
        ({"worker_id": "w" * 256}, "p_worker_id"),
    ],
)
def test_refuses_what_are_no_such_lists(sql: Contract, arguments: dict[str, Any], says: str) -> None:
    good = {"worker_id": "w", "job_ids": [1, 2], "attempt_ids": [1, 2]}
    with refused("TQ422", says):
        sql.complete_many(**{**good, **arguments})
