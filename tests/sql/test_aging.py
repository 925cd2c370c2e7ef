"""Jobs that have waited too long are raised to the highest priority that waits."""

# Scenario B46.

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("aging", ["00:00:00", "367 days"])
def test_refuses_what_cannot_be(sql: Contract, aging: str) -> None:
    with refused("TQ422", f"aging {aging} is outside 0 to 366 days"):
        sql.set_queue(queue="q", aging=aging)


def priorities(sql: Contract) -> dict[int, int]:
    return {row["id"]: row["priority"] for row in sql.rows("select id, priority from taskq.ready")}


def test_raises_who_has_been_due_for_long(sql: Contract, clock: Clock) -> None:
    sql.set_queue(queue="q", aging=MINUTE)
    old = sql.new_job(priority=-3)
    delayed = sql.new_job(priority=-3, delay=MINUTE / 2)
    clock.forward(seconds=59)
    young = sql.new_job(priority=2)
    high = sql.new_job(priority=5)
    assert sql.value("select taskq.age()") == 0
    clock.forward(seconds=1)

    assert sql.value("select taskq.age()") == 1
    assert priorities(sql) == {old: 5, delayed: -3, young: 2, high: 5}
    assert sql.take()["job_id"] == old


def test_leaves_other_queues_alone(sql: Contract, clock: Clock) -> None:
    sql.set_queue(queue="q", aging=MINUTE)
    old = sql.new_job(queue="other")
    sql.new_job(queue="other", priority=1)
    clock.forward(hours=1)

    assert sql.value("select taskq.age()") == 0
    assert priorities(sql)[old] == 0


def test_a_stream_of_high_priority_starves_nobody(sql: Contract, clock: Clock) -> None:
    sql.set_queue(queue="q", aging=MINUTE)
    low = sql.new_job()
    for _ in range(10):
        sql.new_job(priority=1)
        clock.forward(seconds=10)
        sql.age()
        if sql.take()["job_id"] == low:
            break
    else:
        pytest.fail("the job of low priority was not claimed")


def test_is_bounded_and_goes_on_where_it_ended(sql: Contract, clock: Clock) -> None:
    sql.set_queue(queue="q", aging=MINUTE)
    sql.new_job(priority=1)
    for _ in range(5):
        sql.new_job()
    clock.forward(minutes=1)

    assert [sql.value("select taskq.age(2)") for _ in range(4)] == [2, 2, 1, 0]


def test_passes_over_locked_rows_and_another_pass(sql: Contract, other: Contract, clock: Clock) -> None:
    sql.set_queue(queue="q", aging=MINUTE)
    sql.new_job(priority=1)
    locked, free = sql.new_job(), sql.new_job()
    clock.forward(minutes=1)
    with other.conn.transaction():
        other.run("select from taskq.ready where id = %s for update", locked)
        assert sql.value("select taskq.age()") == 1
    assert priorities(sql)[free] == 1
    with other.conn.transaction():
        assert other.value("select taskq.age()") == 1
        assert sql.value("select taskq.age()") == 0


@pytest.mark.parametrize("limit", [None, 0, 10_001])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    with refused("TQ422", "is outside 1 to 10000"):
        sql.age(limit=limit)
