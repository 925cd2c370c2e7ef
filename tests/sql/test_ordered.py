"""Ordered jobs: of a key one after the other, whatever becomes of the one at the head."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Contract, Row, refused

HOUR = timedelta(hours=1)


def ordered(sql: Contract, count: int = 1, **arguments: Any) -> list[int]:
    """Enqueue ordered jobs of the key `k` and return their ids."""
    return [sql.new_job(**{"concurrency_key": "k", "ordered": True, **arguments}) for _ in range(count)]


def claimed(sql: Contract, *queues: str) -> list[int]:
    return [row["job_id"] for row in sql.claim(queues=list(queues or ("q",)), worker_id="w", limit=100)]


def fence(attempt: Row) -> Row:
    return {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}


def test_refuses_what_cannot_be(sql: Contract) -> None:
    with refused("TQ422", "an ordered job needs a concurrency_key"):
        sql.enqueue(queue="q", task="t", ordered=True)
    with refused("TQ422", "an ordered job keeps its place"):
        sql.enqueue(
            queue="q", task="t", ordered=True, concurrency_key="k", unique_key="u", unique_mode="replace"
        )
    jobs = [{"task": "t", "concurrency_key": f"{n}", "ordered": True} for n in range(257)]
    with refused("TQ422", "257 ordered keys in one call are over the cap of 256"):
        sql.enqueue_many(queue="q", jobs=Jsonb(jobs))


def test_runs_one_after_the_other_in_order_of_enqueueing(sql: Contract) -> None:
    """Whatever their priorities and the limit of the key."""
    sql.set_concurrency_limit(key="k", max_running=5)
    jobs = [*ordered(sql), *ordered(sql, priority=9), *ordered(sql, priority=5)]
    for job in jobs:
        attempt = sql.take()
        assert attempt["job_id"] == job
        assert claimed(sql) == []
        sql.complete(**fence(attempt))
    assert claimed(sql) == []


def test_keys_are_independent(sql: Contract) -> None:
    first, *_ = ordered(sql, 2)
    other, *_ = ordered(sql, 2, concurrency_key="other")

    assert claimed(sql) == [first, other]


def test_jobs_of_the_key_that_are_not_ordered_only_share_its_limit(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=2)
    first, *_ = ordered(sql, 2)
    free = sql.new_job(concurrency_key="k")

    assert claimed(sql) == [first, free]


def test_is_ordered_across_queues(sql: Contract) -> None:
    first, second = *ordered(sql, queue="a"), *ordered(sql, queue="b")
    assert claimed(sql, "b") == []
    attempt = sql.take("a")
    assert attempt["job_id"] == first
    sql.complete(**fence(attempt))

    assert claimed(sql, "b") == [second]


def test_a_head_that_fails_blocks_its_key_until_it_succeeds(sql: Contract) -> None:
    first, second = ordered(sql, 2)
    attempt = sql.take()
    sql.fail(**fence(attempt), error="x", retry_after=HOUR)
    assert claimed(sql) == []
    sql.make_due(first)
    attempt = sql.take()
    assert attempt["job_id"] == first
    assert claimed(sql) == []
    sql.complete(**fence(attempt))

    assert claimed(sql) == [second]


def test_a_delayed_head_blocks_its_key(sql: Contract) -> None:
    first, _ = *ordered(sql, delay=HOUR), *ordered(sql)
    assert claimed(sql) == []
    sql.make_due(first)

    assert claimed(sql) == [first]


def dies(sql: Contract, attempt: Row) -> None:
    sql.fail(**fence(attempt), error="x", retryable=False)


def is_cancelled(sql: Contract, attempt: Row) -> None:
    sql.cancel_attempt(**fence(attempt))


def is_taken_back_for_good(sql: Contract, attempt: Row) -> None:
    sql.run("update taskq.running set expiry_streak = 2")
    sql.run_out(attempt["job_id"])
    sql.take_back()


@pytest.mark.parametrize("ends", [dies, is_cancelled, is_taken_back_for_good])
def test_the_next_goes_when_the_head_ends_in_any_way(
    sql: Contract, ends: Callable[[Contract, Row], None]
) -> None:
    _, second = ordered(sql, 2)
    ends(sql, sql.take())

    assert claimed(sql) == [second]


@pytest.mark.parametrize("seen", [False, True])
def test_the_next_goes_when_a_waiting_head_is_cancelled(sql: Contract, seen: bool) -> None:
    first, second = *ordered(sql, delay=HOUR), *ordered(sql)
    if seen:
        assert claimed(sql) == []
    sql.cancel_job(job_id=first)

    assert claimed(sql) == [second]


def test_one_in_the_middle_may_be_cancelled(sql: Contract) -> None:
    _, second, third = ordered(sql, 3)
    attempt = sql.take()
    sql.cancel_job(job_id=second)
    assert claimed(sql) == []
    sql.complete(**fence(attempt))

    assert claimed(sql) == [third]


def test_a_head_beyond_the_limit_of_its_key_comes_when_there_is_room(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=0)
    first, second = ordered(sql, 2)
    assert claimed(sql) == []
    sql.set_concurrency_limit(key="k", max_running=None)
    attempt = sql.take()
    assert attempt["job_id"] == first
    sql.complete(**fence(attempt))

    assert claimed(sql) == [second]


def test_a_batch_keeps_its_order(sql: Contract) -> None:
    rows = sql.enqueue_many(
        queue="q",
        jobs=Jsonb([{"task": "t", "concurrency_key": "ab"[n % 2], "ordered": True} for n in range(10)]),
    )
    jobs = [row["job_id"] for row in rows]
    for pair in zip(jobs[::2], jobs[1::2], strict=True):
        attempts = sql.claim(queues=["q"], worker_id="w", limit=100)
        assert [each["job_id"] for each in attempts] == list(pair)
        for attempt in attempts:
            sql.complete(**fence(attempt))


def test_a_waiting_one_is_queued_for_whoever_looks(sql: Contract) -> None:
    _, second = ordered(sql, 2)
    sql.take()
    job = sql.job(second)

    assert (job["status"], job["hold"]) == ("queued", "order")
    assert sql.queue_stats(queue="q")[0]["held"] == 1


def test_a_replace_leaves_it_its_place(sql: Contract) -> None:
    first, second = *ordered(sql, delay=HOUR), *ordered(sql, unique_key="u", payload={"n": 1})
    claimed(sql)
    [answer] = sql.enqueue(
        queue="q", task="t", unique_key="u", unique_mode="replace", concurrency_key="other", payload={"n": 2}
    )
    assert answer == {"status": "replaced", "job_id": second}
    assert claimed(sql) == []
    sql.cancel_job(job_id=first)
    attempt = sql.take()

    assert (attempt["payload"], attempt["concurrency_key"]) == ({"n": 2}, "k")


def test_wakes_who_sleeps_for_the_next(sql: Contract, heard: Callable[[], list[str]]) -> None:
    ordered(sql, 1, queue="a")
    ordered(sql, 1, queue="b")
    attempt = sql.take("a")
    claimed(sql, "a")
    heard()
    sql.run("select taskq.sleep_until('w', array['a', 'b'], taskq.clock() + interval '1 minute')")
    sql.complete(**fence(attempt))

    assert heard() == ["b"]
    assert [row["state"] for row in sql.poll_hint(queues=["a", "b"])] == ["empty", "ready"]


def test_a_key_that_is_stuck_would_be_found(sql: Contract) -> None:
    with sql.conn.transaction(force_rollback=True):
        _, second, _ = ordered(sql, 3)
        attempt = sql.take()
        sql.complete(**fence(attempt))
        assert sql.check_integrity() == []
        sql.run("delete from taskq.signals")

        assert sql.check_integrity() == [
            {"job_id": second, "problem": 'waits in order of key "k" for no job that is live'}
        ]
