"""Ending queued jobs whose time to live is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, refused

TTL = timedelta(seconds=10)


def _expired(sql: Contract, limit: int = 1000) -> int:
    [row] = sql.expire_ttl(limit=limit)
    return int(row["expire_ttl"])


def test_returns_a_count(sql: Contract) -> None:
    assert sql.expire_ttl() == [{"expire_ttl": 0}]


def test_ends_a_job_at_the_instant_its_time_is_over(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(ttl=TTL)
    clock.forward(seconds=9.999999)
    assert _expired(sql) == 0
    clock.forward(seconds=0.000001)
    assert _expired(sql) == 1
    assert _expired(sql) == 0

    job = sql.job(job_id)
    assert (job["status"], job["outcome"], job["reason"]) == (
        "cancelled",
        "expired_ttl",
        "its time to live was over",
    )
    assert (job["finished_at"], job["purge_at"]) == (clock.now, clock.now + timedelta(days=2))


def test_counts_from_when_the_job_was_due(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(ttl=TTL, delay=timedelta(seconds=100))
    clock.forward(seconds=109)
    assert _expired(sql) == 0
    clock.forward(seconds=1)
    assert _expired(sql) == 1
    assert sql.job(job_id)["outcome"] == "expired_ttl"


def test_leaves_jobs_without_a_time_to_live(sql: Contract, clock: Clock) -> None:
    sql.new_job()
    clock.forward(days=300)

    assert _expired(sql) == 0


def test_never_ends_a_running_job_but_ends_it_between_two_attempts(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(ttl=TTL)
    clock.forward(seconds=30)
    assert _expired(sql) == 0
    sql.release(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    assert sql.claim(queues=["q"], worker_id="w") == []

    assert _expired(sql) == 1
    assert sql.job(attempt["job_id"])["outcome"] == "expired_ttl"
    assert len(sql.job_history(job_id=attempt["job_id"])) == 1


@pytest.mark.parametrize("waits", ["held", "blocked", "paused"])
def test_ends_a_job_that_waits_for_whatever(sql: Contract, clock: Clock, waits: str) -> None:
    job_id = sql.new_job(ttl=TTL)
    if waits == "paused":
        sql.pause_queue(queue="q")
    else:
        sql.run(
            "update taskq.ready set concurrency_key = 'k', hold = %s",
            "key" if waits == "held" else "dependency",
        )
    clock.forward(seconds=10)

    assert _expired(sql) == 1
    assert sql.job(job_id)["status"] == "cancelled"


def test_is_bounded_and_takes_the_oldest_first(sql: Contract, clock: Clock) -> None:
    late = sql.new_job(ttl=timedelta(seconds=3))
    early = [sql.new_job(ttl=timedelta(seconds=seconds)) for seconds in (1, 2)]
    clock.forward(seconds=3)

    assert _expired(sql, limit=2) == 2
    assert [sql.job(job_id)["status"] for job_id in (*early, late)] == ["cancelled", "cancelled", "queued"]
    assert _expired(sql, limit=2) == 1


def test_skips_rows_that_another_session_has_locked(sql: Contract, other: Contract, clock: Clock) -> None:
    locked, free = sql.new_job(ttl=TTL), sql.new_job(ttl=TTL)
    clock.forward(seconds=10)

    with sql.conn.transaction(force_rollback=True):
        sql.cancel_job(job_id=locked)
        assert _expired(other) == 1
    assert sql.job(free)["status"] == "cancelled"
    assert _expired(other) == 1


def test_never_queues_behind_another_pass(sql: Contract, other: Contract, clock: Clock) -> None:
    sql.new_job(ttl=TTL)
    clock.forward(seconds=10)
    with sql.conn.transaction():
        _expired(sql, limit=1)
        assert _expired(other) == 0


@pytest.mark.parametrize("limit", [None, 0, 10_001])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    with refused("TQ422", "of expire_ttl is outside 1 to 10000"):
        sql.expire_ttl(limit=limit)


# -- expired jobs at the head of a queue -----------------------------------------------------------------------


def _crowd(sql: Contract, count: int, **options: Any) -> None:
    """Enqueue *count* jobs that live for a minute."""
    job = {"task": "t", "ttl": 60, **options}
    for first in range(0, count, 10_000):
        sql.enqueue_many(queue="q", jobs=Jsonb([job] * min(10_000, count - first)))


def _claimable(sql: Contract) -> int:
    return int(sql.value("select count(*) from taskq.ready where hold is null"))


def test_claim_takes_what_is_behind_them(sql: Contract, clock: Clock) -> None:
    _crowd(sql, 5)
    live = sql.new_job()
    clock.forward(minutes=2)

    assert [row["job_id"] for row in sql.claim(queues=["q"], worker_id="w", limit=3)] == [live]


def test_claim_takes_as_many_as_it_was_asked_for(sql: Contract, clock: Clock) -> None:
    """The second look, behind those that were put aside, finds others than the first."""
    _crowd(sql, 1)
    live = [sql.new_job() for _ in range(3)]
    clock.forward(minutes=2)

    assert [row["job_id"] for row in sql.claim(queues=["q"], worker_id="w", limit=3)] == live


def test_claim_counts_each_job_of_a_key_once(sql: Contract, clock: Clock) -> None:
    sql.set_concurrency_limit(key="k", max_running=2)
    _crowd(sql, 3)
    first, _, second = (sql.new_job(concurrency_key=key) for key in ("k", None, "k"))
    clock.forward(minutes=2)

    claimed = [row["job_id"] for row in sql.claim(queues=["q"], worker_id="w", limit=5)]
    assert {first, second} <= set(claimed)
    assert sql.value("select count(*) from taskq.ready where hold = 'key'") == 0


@pytest.mark.parametrize("limit", [1, 100])
def test_claims_meet_a_crowd_of_them_once(sql: Contract, clock: Clock, limit: int) -> None:
    _crowd(sql, 35_000)
    live = sql.new_job()
    clock.forward(minutes=2)

    assert sql.claim(queues=["q"], worker_id="w", limit=limit) == []
    assert _claimable(sql) < 10_000
    assert [row["state"] for row in sql.poll_hint(queues=["q"])] == ["ready"]
    assert [row["job_id"] for row in sql.claim(queues=["q"], worker_id="w", limit=limit)] == [live]
    assert _claimable(sql) == 0
    assert [row["state"] for row in sql.poll_hint(queues=["q"])] == ["empty"]


def test_what_was_met_is_still_queued_until_it_is_ended(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(ttl=timedelta(minutes=1))
    clock.forward(minutes=2)
    assert sql.claim(queues=["q"], worker_id="w") == []

    job = sql.job(job_id)
    assert (job["status"], job["hold"]) == ("queued", "expired")
    assert [row["id"] for row in sql.list_jobs(status="queued")] == [job_id]
    assert sql.list_jobs(status="blocked") == []
    assert _expired(sql) == 1
    assert sql.job(job_id)["outcome"] == "expired_ttl"


def test_the_next_of_its_key_does_not_wait_for_the_end(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(concurrency_key="k")
    sql.new_job(concurrency_key="k", ttl=timedelta(minutes=1))
    follower = sql.new_job(concurrency_key="k")
    assert sql.claim(queues=["q"], worker_id="w", limit=5) == []
    clock.forward(minutes=2)
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

    claimed = [row["job_id"] for _ in range(2) for row in sql.claim(queues=["q"], worker_id="w")]
    assert claimed == [follower]


def test_a_slot_is_not_spent_on_each_of_those_that_a_full_key_held_up(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(concurrency_key="k")
    _crowd(sql, 300, concurrency_key="k")
    follower = sql.new_job(concurrency_key="k")
    assert sql.claim(queues=["q"], worker_id="w", limit=1000) == []
    assert sql.value("select count(*) from taskq.ready where hold = 'key'") == 301
    clock.forward(minutes=2)
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

    assert [row["job_id"] for row in sql.claim(queues=["q"], worker_id="w")] == [follower]
    assert _expired(sql) == 300


@pytest.mark.parametrize("ordered", [False, True])
def test_one_that_is_replaced_may_run(sql: Contract, clock: Clock, ordered: bool) -> None:
    key = {"concurrency_key": "k", "ordered": True} if ordered else {}
    job_id = sql.new_job(unique_key="u", ttl=timedelta(minutes=1), **key)
    clock.forward(minutes=2)
    assert sql.claim(queues=["q"], worker_id="w") == []
    sql.enqueue(queue="q", task="t", unique_key="u", unique_mode="replace", ttl=timedelta(minutes=1))

    assert sql.take()["job_id"] == job_id


def test_the_next_in_order_waits_until_it_is_ended(sql: Contract, clock: Clock) -> None:
    sql.new_job(concurrency_key="k", ordered=True, ttl=timedelta(minutes=1))
    second = sql.new_job(concurrency_key="k", ordered=True)
    clock.forward(minutes=2)

    assert [sql.claim(queues=["q"], worker_id="w") for _ in range(2)] == [[], []]
    assert _expired(sql) == 1
    assert sql.take()["job_id"] == second
