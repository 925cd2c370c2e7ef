"""What a worker is told before it sleeps: try again, wait until then, or paused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused


def _hint(sql: Contract, queue: str = "q") -> tuple[str, object]:
    [row] = sql.poll_hint(queues=[queue])
    assert row["queue"] == queue
    return row["state"], row["next_due_at"]


def test_returns_queue_state_and_next_due_at(sql: Contract) -> None:
    assert sql.columns("poll_hint", queues=["q"]) == ["queue", "state", "next_due_at"]


def test_is_empty_where_nothing_is(sql: Contract) -> None:
    assert _hint(sql) == ("empty", None)


def test_is_ready_while_a_job_is_due(sql: Contract) -> None:
    sql.new_job()
    assert _hint(sql)[0] == "ready"


def test_is_empty_until_the_next_job_is_due(sql: Contract, clock: Clock) -> None:
    sql.new_job(delay=timedelta(minutes=3))
    sql.new_job(delay=timedelta(minutes=2), priority=-5)
    sql.new_job(delay=timedelta(minutes=4), priority=5)

    assert _hint(sql) == ("empty", clock.now + timedelta(minutes=2))


def test_is_ready_for_a_due_job_below_future_ones(sql: Contract) -> None:
    sql.new_job(priority=9, delay=timedelta(hours=1))
    sql.new_job(priority=0)

    assert _hint(sql)[0] == "ready"


def test_answers_once_per_queue_in_the_order_given(sql: Contract, clock: Clock) -> None:
    sql.new_job(queue="b")
    sql.new_job(queue="c", delay=timedelta(seconds=9))
    sql.new_job(queue="d")
    sql.pause_queue(queue="d")

    assert sql.poll_hint(queues=["d", "c", "a", "b"]) == [
        {"queue": "d", "state": "paused", "next_due_at": None},
        {"queue": "c", "state": "empty", "next_due_at": clock.now + timedelta(seconds=9)},
        {"queue": "a", "state": "empty", "next_due_at": None},
        {"queue": "b", "state": "ready", "next_due_at": sql.poll_hint(queues=["b"])[0]["next_due_at"]},
    ]


def test_is_ready_for_a_job_whose_time_to_live_is_over_until_a_claim_has_put_it_aside(
    sql: Contract, clock: Clock
) -> None:
    sql.new_job(ttl=timedelta(seconds=5))
    clock.forward(seconds=5)

    assert _hint(sql) == ("ready", None)
    assert sql.claim(queues=["q"], worker_id="w") == []
    assert _hint(sql) == ("empty", None)


def test_is_empty_while_everything_runs(sql: Contract) -> None:
    sql.new_attempt()
    assert _hint(sql) == ("empty", None)


def test_is_ready_for_a_job_that_another_claim_has_locked(sql: Contract, other: Contract) -> None:
    """It was passed over, and may come back if that transaction rolls back."""
    sql.new_job()
    with sql.conn.transaction():
        sql.take()
        assert other.claim(queues=["q"], worker_id="w") == []
        assert _hint(other)[0] == "ready"


def test_is_empty_while_all_that_is_due_waits_for_a_full_key(sql: Contract) -> None:
    for _ in range(3):
        sql.new_job(concurrency_key="k")
    sql.take(limit=3)

    assert _hint(sql) == ("empty", None)


def test_is_ready_when_a_claim_only_put_rows_on_hold(sql: Contract) -> None:
    for _ in range(4):
        sql.new_job(concurrency_key="k", priority=1)
    sql.new_job()
    sql.take(limit=2)

    assert sql.claim(queues=["q"], worker_id="w", limit=2) == []
    assert _hint(sql)[0] == "ready"


def test_is_ready_when_a_held_job_may_have_room_again(sql: Contract) -> None:
    for _ in range(2):
        sql.new_job(concurrency_key="k")
    running = sql.take(limit=2)
    assert _hint(sql)[0] == "empty"
    sql.complete(job_id=running["job_id"], attempt_id=running["attempt_id"])

    assert _hint(sql)[0] == "ready"
    assert _hint(sql, "other")[0] == "empty"


def test_is_ready_until_claims_have_used_up_a_heap_of_signals(sql: Contract) -> None:
    """It looks at 1,000 keys, whatever their number."""
    sql.run("insert into taskq.signals (kind, key) select 'key', 'k' || n from generate_series(1, 1000) as n")
    assert _hint(sql)[0] == "ready"
    sql.claim(queues=["q"], worker_id="w")

    assert _hint(sql)[0] == "empty"


def test_changes_nothing(sql: Contract) -> None:
    job_id = sql.new_job()
    before = sql.job(job_id)
    sql.poll_hint(queues=["q"])
    sql.poll_hint(queues=["q"])

    assert sql.job(job_id) == before


@pytest.mark.parametrize("queues", [None, [], ["a", None], ["a", "a"], [f"q{n}" for n in range(101)]])
def test_refuses_a_bad_list_of_queues(sql: Contract, queues: object) -> None:
    with refused("TQ422", "p_queues must "):
        sql.poll_hint(queues=queues)
