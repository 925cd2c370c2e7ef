"""Claims that begin behind what the session has claimed before, while a snapshot keeps that in the index.

Whatever comes to stand before the place is not forgotten, and the order changes for a few seconds at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract
from kit.plans import buffers

JOBS = 3000
BATCH = 100


def _ids(rows: list[dict[str, object]]) -> list[object]:
    return [row["job_id"] for row in rows]


def _claim(sql: Contract, limit: int = BATCH, queues: tuple[str, ...] = ("q",)) -> list[object]:
    return _ids(sql.claim(queues=list(queues), worker_id="w", limit=limit))


@pytest.fixture
def jobs(sql: Contract, other: Contract, clock: Clock) -> Iterator[list[object]]:
    """The ids of 1,500 due jobs, behind 1,500 that were claimed since the snapshot of another session."""
    other.run("begin isolation level repeatable read")
    other.value("select count(*) from taskq.ready")
    rows = sql.rows(
        "select job_id from taskq.enqueue_many('q', (select jsonb_agg('{\"task\": \"t\"}'::jsonb) "
        "from generate_series(1, %s)))",
        JOBS,
    )
    ids = _ids(rows)
    clock.forward(minutes=1)
    claimed = [job_id for _ in range(JOBS // BATCH // 2) for job_id in _claim(sql)]
    assert claimed == ids[: JOBS // 2]
    yield ids[JOBS // 2 :]
    other.run("rollback")


def _remembers(sql: Contract) -> bool:
    name = sql.value("select 'taskq_sync.places_' || 'taskq.ready_claim'::regclass::oid")
    return sql.value("select current_setting(%s, true)", name) not in (None, "", "{}")


def test_claim_does_not_walk_over_what_was_claimed_before(sql: Contract, jobs: list[object]) -> None:
    assert _remembers(sql)
    began = buffers(sql, "claim(array['q'], 'w')")
    assert began < 150
    assert _claim(sql) == jobs[1 : BATCH + 1]


def test_forgets_the_places_of_too_many_queues(sql: Contract, jobs: list[object]) -> None:
    name = sql.value("select 'taskq_sync.places_' || 'taskq.ready_claim'::regclass::oid")
    sql.run(
        "select set_config(%s, (select jsonb_object_agg(repeat('q', 100) || n, '[]'::jsonb) "
        "from generate_series(1, 200) n)::text, false)",
        name,
    )
    _claim(sql)
    assert _remembers(sql)
    assert len(sql.value("select current_setting(%s)", name)) < 1000


def test_job_of_a_higher_priority_is_taken_first(sql: Contract, jobs: list[object]) -> None:
    urgent = sql.new_job(priority=1)
    assert _claim(sql, 2) == [urgent, jobs[0]]


def test_job_of_a_lower_priority_is_taken_last(sql: Contract, jobs: list[object]) -> None:
    sql.new_job(priority=-1)
    assert _claim(sql, 2) == jobs[:2]


def test_job_before_the_place_is_taken_when_nothing_else_is_left(sql: Contract, jobs: list[object]) -> None:
    early = sql.new_job(delay=timedelta(0))
    sql.run("update taskq.ready set scheduled_at = scheduled_at - interval '1 hour' where id = %s", early)

    assert _claim(sql, 1000) == jobs[:1000]
    assert _claim(sql, 1000) == [early, *jobs[1000:]]


def test_job_before_the_place_is_taken_first_after_five_seconds(
    sql: Contract, jobs: list[object], clock: Clock
) -> None:
    early = sql.new_job()
    sql.run("update taskq.ready set scheduled_at = scheduled_at - interval '1 hour' where id = %s", early)

    assert _claim(sql, 1) == jobs[:1]
    clock.forward(seconds=5)
    assert _claim(sql, 2) == [early, jobs[1]]


def test_place_of_a_lower_priority_does_not_outlive_its_time(
    sql: Contract, jobs: list[object], clock: Clock
) -> None:
    """A claim that finds enough above it has not looked before it, and must not keep it for another while."""
    early = sql.new_job()
    sql.run("update taskq.ready set scheduled_at = scheduled_at - interval '1 hour' where id = %s", early)
    sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t", "priority": 1}] * 1000))
    _claim(sql, 900)
    clock.forward(seconds=5)
    above = _claim(sql, 1) + _claim(sql, 99)
    assert len(above) == BATCH
    assert not set(above) & {early, *jobs}
    assert _remembers(sql)

    assert _claim(sql, 2) == [early, jobs[0]]


def test_claim_that_ends_at_a_higher_priority_does_not_lengthen_the_wait_of_a_lower_one(
    sql: Contract, jobs: list[object], clock: Clock
) -> None:
    early = sql.new_job()
    sql.run("update taskq.ready set scheduled_at = scheduled_at - interval '1 hour' where id = %s", early)
    sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t", "priority": 1}] * 1001))
    assert len(_claim(sql, 1000)) == 1000

    clock.forward(seconds=5)
    assert early not in _claim(sql, 1)  # from the very start, and over the thousand
    assert _claim(sql, 2) == [early, jobs[0]]


def test_job_that_a_signal_brings_back_is_taken_first(sql: Contract, jobs: list[object]) -> None:
    held = sql.new_job(concurrency_key="k")
    sql.run(
        "update taskq.ready set hold = 'key', scheduled_at = scheduled_at - interval '1 hour' where id = %s",
        held,
    )
    sql.run("insert into taskq.signals (kind, key) values ('key', 'k')")

    assert _claim(sql, 2) == [held, jobs[0]]


def test_paused_queue_is_passed_over(sql: Contract, jobs: list[object]) -> None:
    second = sql.new_job(queue="second")
    sql.pause_queue(queue="q")
    assert _claim(sql, 2, ("q", "second")) == [second]
    sql.resume_queue(queue="q")
    assert _claim(sql, 2) == jobs[:2]


def test_each_queue_has_places_of_its_own(sql: Contract, jobs: list[object]) -> None:
    first = sql.new_job(queue="first")
    assert _claim(sql, 2, ("first", "q")) == [first, jobs[0]]


def test_claim_that_rolls_back_forgets_its_place(sql: Contract, jobs: list[object]) -> None:
    with sql.conn.transaction(force_rollback=True):
        assert _claim(sql, 1000) == jobs[:1000]
    assert _claim(sql, 1000) == jobs[:1000]


def test_places_are_forgotten_when_the_queue_is_empty(sql: Contract, jobs: list[object]) -> None:
    assert _claim(sql, 1000) + _claim(sql, 1000) == jobs
    assert not _remembers(sql)


def test_claim_of_a_session_without_places_finds_the_same(
    sql: Contract, other: Contract, jobs: list[object]
) -> None:
    sql.run("discard all")
    assert _claim(sql) == jobs[:BATCH]
