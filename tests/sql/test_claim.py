"""Taking due jobs under a lease: which, in which order, by whom, and what is refused."""

# Scenarios B12, B37, B86.

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused


def _ids(rows: list[dict[str, object]]) -> list[object]:
    return [row["job_id"] for row in rows]


def test_returns_the_columns_of_claimed_job(sql: Contract) -> None:
    assert sql.columns("claim", queues=["q"], worker_id="w") == [
        "job_id",
        "attempt_id",
        "queue",
        "task",
        "payload",
        "headers",
        "progress",
        "priority",
        "attempt_count",
        "failure_count",
        "max_attempts",
        "expiry_streak",
        "scheduled_at",
        "created_at",
        "lease",
        "lease_expires_at",
        "concurrency_key",
    ]


def test_hands_out_the_job_under_a_lease(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(
        task="mail",
        payload={"a": 1},
        headers={"h": 2},
        priority=3,
        concurrency_key="c",
        max_attempts=4,
        lease=timedelta(seconds=90),
    )
    enqueued = clock.now
    clock.forward(seconds=10)
    claimed = sql.take(worker="host-1")

    assert claimed == {
        "job_id": job_id,
        "attempt_id": claimed["attempt_id"],
        "queue": "q",
        "task": "mail",
        "payload": {"a": 1},
        "headers": {"h": 2},
        "progress": None,
        "priority": 3,
        "attempt_count": 1,
        "failure_count": 0,
        "max_attempts": 4,
        "expiry_streak": 0,
        "scheduled_at": enqueued,
        "created_at": enqueued,
        "lease": timedelta(seconds=90),
        "lease_expires_at": clock.now + timedelta(seconds=90),
        "concurrency_key": "c",
    }
    job = sql.job(job_id)
    assert job["status"] == "running"
    assert job["worker_id"] == "host-1"
    assert job["claimed_at"] == clock.now
    assert job["current_attempt_id"] == claimed["attempt_id"]
    assert job["lease_expires_at"] == claimed["lease_expires_at"]


def test_a_lease_of_the_call_goes_before_the_jobs_own(sql: Contract, clock: Clock) -> None:
    sql.new_job(lease=timedelta(seconds=90))
    claimed = sql.take(lease=timedelta(seconds=7))

    assert claimed["lease"] == timedelta(seconds=7)
    assert claimed["lease_expires_at"] == clock.now + timedelta(seconds=7)


def test_orders_by_priority_then_time_then_id(sql: Contract, clock: Clock) -> None:
    low = sql.new_job(priority=-1)
    late = sql.new_job(delay=timedelta(seconds=2))
    early = sql.new_job(delay=timedelta(seconds=1))
    early_too = sql.new_job(delay=timedelta(seconds=1))
    high = sql.new_job(priority=5, delay=timedelta(seconds=3))
    clock.forward(seconds=3)

    assert _ids(sql.claim(queues=["q"], worker_id="w", limit=9)) == [high, early, early_too, late, low]


def test_serves_the_queues_in_the_order_given(sql: Contract) -> None:
    first, second = sql.new_job(queue="a", priority=9), sql.new_job(queue="b")

    with sql.conn.transaction(force_rollback=True):
        assert _ids(sql.claim(queues=["b", "a"], worker_id="w", limit=2)) == [second, first]
    with sql.conn.transaction(force_rollback=True):
        assert _ids(sql.claim(queues=["a", "b"], worker_id="w", limit=2)) == [first, second]
    assert _ids(sql.claim(queues=["b", "a"], worker_id="w", limit=1)) == [second]


def test_takes_one_unless_told_otherwise_and_never_more_than_the_limit(sql: Contract) -> None:
    ids = [sql.new_job() for _ in range(5)]

    assert _ids(sql.claim(queues=["q"], worker_id="w")) == ids[:1]
    assert _ids(sql.claim(queues=["q"], worker_id="w", limit=3)) == ids[1:4]
    assert _ids(sql.claim(queues=["q"], worker_id="w", limit=3)) == ids[4:]
    assert sql.claim(queues=["q"], worker_id="w", limit=3) == []


def test_the_limit_counts_over_priorities_and_queues(sql: Contract) -> None:
    for queue in ("a", "b"):
        for priority in (2, 1):
            for _ in range(2):
                sql.new_job(queue=queue, priority=priority)

    assert [
        (row["queue"], row["priority"]) for row in sql.claim(queues=["a", "b"], worker_id="w", limit=7)
    ] == [("a", 2), ("a", 2), ("a", 1), ("a", 1), ("b", 2), ("b", 2), ("b", 1)]


def test_takes_the_extremes_of_priority(sql: Contract) -> None:
    lowest, highest = sql.new_job(priority=-32768), sql.new_job(priority=32767)

    assert _ids(sql.claim(queues=["q"], worker_id="w", limit=2)) == [highest, lowest]


def test_leaves_a_job_until_its_time_has_come(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(delay=timedelta(seconds=5))

    clock.forward(seconds=4.999999)
    assert sql.claim(queues=["q"], worker_id="w") == []
    clock.forward(seconds=0.000001)
    assert _ids(sql.claim(queues=["q"], worker_id="w")) == [job_id]


def test_looks_past_future_jobs_of_a_higher_priority(sql: Contract) -> None:
    sql.new_job(priority=9, delay=timedelta(hours=1))
    due = sql.new_job()

    assert _ids(sql.claim(queues=["q"], worker_id="w")) == [due]


def test_leaves_a_job_whose_time_to_live_is_over(sql: Contract, clock: Clock) -> None:
    sql.new_job(ttl=timedelta(seconds=5))
    clock.forward(seconds=5)

    assert sql.claim(queues=["q"], worker_id="w") == []


def test_passes_over_a_paused_queue(sql: Contract) -> None:
    sql.pause_queue(queue="a")
    sql.new_job(queue="a")
    open_one = sql.new_job(queue="b")

    assert _ids(sql.claim(queues=["a", "b"], worker_id="w", limit=2)) == [open_one]


def test_finds_nothing_in_a_queue_without_jobs(sql: Contract) -> None:
    sql.new_job(queue="other")
    assert sql.claim(queues=["q"], worker_id="w") == []


def test_draws_a_greater_fence_for_every_attempt(sql: Contract) -> None:
    first = sql.new_attempt()
    sql.release(job_id=first["job_id"], attempt_id=first["attempt_id"])
    second = sql.take()

    assert second["job_id"] == first["job_id"]
    assert second["attempt_id"] > first["attempt_id"]
    assert second["attempt_count"] == 2


def test_hands_out_what_travels_with_the_job(sql: Contract) -> None:
    claimed = sql.new_attempt()
    sql.fail(
        job_id=claimed["job_id"],
        attempt_id=claimed["attempt_id"],
        error="boom",
        retry_after=timedelta(0),
        progress={"page": 7},
    )
    again = sql.take()
    sql.run_out(again["job_id"])
    sql.take_back()
    third = sql.take()

    assert (again["progress"], again["failure_count"], again["expiry_streak"]) == ({"page": 7}, 1, 0)
    assert (third["progress"], third["failure_count"], third["expiry_streak"]) == ({"page": 7}, 2, 1)
    assert third["attempt_count"] == 3


def test_skips_jobs_locked_by_another_session(sql: Contract, other: Contract) -> None:
    first, second = sql.new_job(), sql.new_job()

    with sql.conn.transaction():
        assert _ids(sql.claim(queues=["q"], worker_id="w1")) == [first]
        assert _ids(other.claim(queues=["q"], worker_id="w2", limit=2)) == [second]


def test_a_rollback_gives_the_job_back(sql: Contract) -> None:
    job_id = sql.new_job()
    with sql.conn.transaction(force_rollback=True):
        sql.take()

    assert sql.job(job_id)["status"] == "queued"
    assert sql.take()["job_id"] == job_id


@pytest.mark.broken_integrity
def test_passes_over_a_row_without_its_request(sql: Contract) -> None:
    """It can neither be dropped silently nor stop the queue."""
    lost, whole = sql.new_job(), sql.new_job()
    sql.run("delete from taskq.jobs where id = %s", lost)

    assert _ids(sql.claim(queues=["q"], worker_id="w", limit=2)) == [whole]
    assert sql.value("select count(*) from taskq.ready where id = %s", lost) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queues": None}, "p_queues must name 1 to 100 queues"),
        ({"queues": []}, "p_queues must name 1 to 100 queues"),
        ({"queues": [f"q{n}" for n in range(101)]}, "p_queues must name 1 to 100 queues"),
        ({"queues": [["a"], ["b"]]}, "p_queues must be one list of names without null"),
        ({"queues": ["a", None]}, "p_queues must be one list of names without null"),
        ({"queues": ["a", "b", "a"]}, "p_queues must not name a queue twice"),
        ({"worker_id": None}, "p_worker_id must be 1 to 255 bytes"),
        ({"worker_id": ""}, "p_worker_id must be 1 to 255 bytes"),
        ({"worker_id": "é" * 128}, "p_worker_id must be 1 to 255 bytes"),
        ({"limit": None}, "p_limit null is outside 1 to 1000"),
        ({"limit": 0}, "p_limit 0 is outside 1 to 1000"),
        ({"limit": 1001}, "p_limit 1001 is outside 1 to 1000"),
        ({"lease": timedelta(milliseconds=99)}, "is outside 0.1 s to 1 day"),
        ({"lease": timedelta(days=1, microseconds=1)}, "is outside 0.1 s to 1 day"),
    ],
)
def test_refuses_what_is_out_of_bounds(sql: Contract, arguments: dict[str, object], message: str) -> None:
    sql.new_job()
    with refused("TQ422", message):
        sql.claim(**{"queues": ["q"], "worker_id": "w", **arguments})
    assert sql.take()


def test_takes_what_is_just_in_bounds(sql: Contract) -> None:
    job_id = sql.new_job(queue="q99")
    queues = [f"q{n}" for n in range(100)]

    rows = sql.claim(queues=queues, worker_id="w" * 255, limit=1000, lease=timedelta(days=1))
    assert _ids(rows) == [job_id]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_is_refused_outside_read_committed(sql: Contract, isolation: str) -> None:
    """A concurrency key is counted in a statement after its lock, which an older snapshot would not see."""
    sql.new_job()
    sql.run(f"begin isolation level {isolation}")
    with refused("TQ409", f"claim was called in a {isolation} transaction", hint="read committed"):
        sql.claim(queues=["q"], worker_id="w")
    sql.run("rollback")


def test_is_refused_for_a_role_whose_default_is_another_level(sql: Contract) -> None:
    """B37: refused up front by one rule, instead of serialization errors under load."""
    sql.run("set default_transaction_isolation = 'repeatable read'")
    with refused("TQ409", "claim was called in a repeatable read transaction"):
        sql.claim(queues=["q"], worker_id="w")


@pytest.mark.parametrize(
    ("setting", "during"), [("off", "on"), ("local", "local"), ("on", "on"), ("remote_apply", "remote_apply")]
)
def test_commits_synchronously_whatever_the_session_says(sql: Contract, setting: str, during: str) -> None:
    """B12: an asynchronous commit that a crash takes back would let its fences be drawn again."""
    sql.new_job()
    sql.run(f"set synchronous_commit = {setting}")
    with sql.conn.transaction():
        sql.take()
        assert sql.value("show synchronous_commit") == during
    assert sql.value("show synchronous_commit") == setting
