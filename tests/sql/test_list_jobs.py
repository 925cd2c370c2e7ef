"""Jobs newest first, filtered, a page at a time."""

# Scenario B84.

from __future__ import annotations

from typing import Any

import pytest

from kit.contract import Contract, refused


@pytest.fixture
def jobs(sql: Contract) -> dict[str, int]:
    """One job in every status, and a few more queued ones."""
    made = {}
    for status in ("succeeded", "failed", "cancelled"):
        attempt = sql.new_attempt(queue="done", task=status)
        made[status] = attempt["job_id"]
        ids = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}
        if status == "succeeded":
            sql.complete(**ids)
        elif status == "failed":
            sql.fail(**ids, error="boom", retryable=False)
        else:
            sql.cancel_attempt(**ids)
    made["blocked"] = sql.new_job(queue="live")
    sql.run("update taskq.ready set hold = 'dependency'")
    made["running"] = sql.new_attempt(queue="live", concurrency_key="k")["job_id"]
    made["queued"] = sql.new_job(queue="live", task="mail", delay="1 hour")
    made["held"] = sql.new_job(queue="live", concurrency_key="k")
    assert sql.claim(queues=["live"], worker_id="w") == []
    return made


def _listed(sql: Contract, **filters: Any) -> list[int]:
    return [row["id"] for row in sql.list_jobs(**filters)]


def test_returns_the_columns_of_job_view(sql: Contract) -> None:
    columns = [
        row["attname"]
        for row in sql.rows("""
        select attname from pg_attribute
        where attrelid = 'taskq.job_view'::regclass and attnum > 0 order by attnum""")
    ]
    assert sql.columns("list_jobs") == columns


def test_is_empty_where_nothing_is(sql: Contract) -> None:
    assert sql.list_jobs() == []


def test_shows_every_job_newest_first(sql: Contract, jobs: dict[str, int]) -> None:
    assert _listed(sql) == sorted(jobs.values(), reverse=True)


def test_shows_the_same_rows_as_get_job(sql: Contract, jobs: dict[str, int]) -> None:
    assert sql.list_jobs() == [sql.job(job_id) for job_id in _listed(sql)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"queue": "live"}, ["held", "queued", "running", "blocked"]),
        ({"queue": "done"}, ["cancelled", "failed", "succeeded"]),
        ({"queue": "nowhere"}, []),
        ({"task": "mail"}, ["queued"]),
        ({"task": "failed"}, ["failed"]),
        ({"status": "queued"}, ["held", "queued"]),
        ({"status": "running"}, ["running"]),
        ({"status": "blocked"}, ["blocked"]),
        ({"status": "succeeded"}, ["succeeded"]),
        ({"status": "failed"}, ["failed"]),
        ({"status": "cancelled"}, ["cancelled"]),
        ({"status": "queued", "queue": "live", "task": "mail"}, ["queued"]),
        ({"status": "running", "task": "mail"}, []),
        ({"status": "running", "queue": "live", "task": "t"}, ["running"]),
        ({"status": "failed", "queue": "done", "task": "failed"}, ["failed"]),
        ({"status": "failed", "queue": "live"}, []),
        ({"queue": None, "task": None, "status": None, "before_id": None, "limit": 2}, ["held", "queued"]),
    ],
)
def test_filters(sql: Contract, jobs: dict[str, int], filters: dict[str, Any], expected: list[str]) -> None:
    assert _listed(sql, **filters) == [jobs[name] for name in expected]


@pytest.mark.parametrize("status", [None, "queued", "running", "succeeded"])
def test_pages_by_the_last_id(sql: Contract, status: str | None) -> None:
    ids = [sql.new_job() for _ in range(5)]
    if status in ("running", "succeeded"):
        attempts = sql.claim(queues=["q"], worker_id="w", limit=5)
        if status == "succeeded":
            for attempt in attempts:
                sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    newest_first = ids[::-1]

    assert _listed(sql, status=status, limit=2) == newest_first[:2]
    assert _listed(sql, status=status, limit=2, before_id=newest_first[1]) == newest_first[2:4]
    assert _listed(sql, status=status, limit=2, before_id=newest_first[3]) == newest_first[4:]
    assert _listed(sql, status=status, limit=2, before_id=newest_first[4]) == []


def test_shows_fifty_unless_told_otherwise(sql: Contract) -> None:
    for _ in range(51):
        sql.new_job()
    assert len(_listed(sql)) == 50
    assert len(_listed(sql, limit=1000)) == 51


@pytest.mark.parametrize("limit", [None, 0, -1, 1001])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    with refused("TQ422", "is outside 1 to 1000"):
        sql.list_jobs(limit=limit)


@pytest.mark.parametrize("status", ["", "done", "scheduled", "partial", "QUEUED"])
def test_refuses_a_status_that_does_not_exist(sql: Contract, status: str) -> None:
    with refused(
        "TQ422", f'no status "{status}"', hint="blocked, queued, running, succeeded, failed, cancelled"
    ):
        sql.list_jobs(status=status)
