"""Taking back jobs whose lease ran out. Where they land is in test_settle_table.py."""

# Scenarios B05, B07, B18, B42, B46, B63.

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract, refused


def _taken(sql: Contract, **arguments: int | None) -> list[int]:
    return [row["job_id"] for row in sql.take_back(**arguments)]


def test_returns_the_columns(sql: Contract) -> None:
    assert sql.columns("take_back") == ["job_id", "attempt_id", "result", "status", "scheduled_at"]


def test_finds_nothing_where_nothing_is(sql: Contract) -> None:
    assert sql.take_back() == []


def test_takes_back_at_the_instant_the_lease_ends(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(lease=timedelta(seconds=10))
    clock.forward(seconds=9.999999)
    assert sql.take_back() == []
    clock.forward(seconds=0.000001)

    assert sql.take_back() == [
        {
            "job_id": attempt["job_id"],
            "attempt_id": attempt["attempt_id"],
            "result": "ok",
            "status": "queued",
            "scheduled_at": clock.now,
        }
    ]
    assert sql.job(attempt["job_id"])["status"] == "queued"


def test_takes_each_lease_back_once(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.run_out(attempt["job_id"])

    assert _taken(sql) == [attempt["job_id"]]
    assert sql.take_back() == []
    assert sql.job(attempt["job_id"])["failure_count"] == 1


def test_records_the_lost_attempt(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(lease=timedelta(seconds=10))
    clock.forward(seconds=10)
    sql.take_back()

    [row] = sql.job_history(job_id=attempt["job_id"])
    assert (row["verb"], row["status"], row["outcome"]) == ("take_back", "queued", None)
    assert (row["worker_id"], row["reason"], row["ended_at"]) == ("w", "the lease ran out", clock.now)


def test_keeps_the_checkpoint(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.heartbeat(
        worker_id="w",
        job_ids=[attempt["job_id"]],
        attempt_ids=[attempt["attempt_id"]],
        progress={str(attempt["job_id"]): {"page": 3}},
    )
    sql.run_out(attempt["job_id"])
    sql.take_back()

    assert sql.take()["progress"] == {"page": 3}


def test_a_job_taken_back_keeps_its_priority_and_starts_next(sql: Contract, clock: Clock) -> None:
    """B46: there is one list of candidates, so a rescued job does not stand behind the fresh ones."""
    lost = sql.new_attempt(priority=10)
    for _ in range(3):
        sql.new_job()
    clock.forward(seconds=60)

    assert [row["job_id"] for row in sql.take_back()] == [lost["job_id"]]
    sql.new_job(priority=9)
    again = sql.take()
    assert (again["job_id"], again["priority"]) == (lost["job_id"], 10)


def test_leaves_leases_that_hold(sql: Contract) -> None:
    lost, held = sql.new_attempt(), sql.new_attempt()
    sql.run_out(lost["job_id"])

    assert _taken(sql) == [lost["job_id"]]
    assert sql.job(held["job_id"])["status"] == "running"


def test_takes_back_in_a_paused_queue(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.pause_queue(queue="q")
    sql.run_out(attempt["job_id"])

    assert _taken(sql) == [attempt["job_id"]]


def test_is_bounded(sql: Contract) -> None:
    ids = [sql.new_attempt()["job_id"] for _ in range(5)]
    sql.run_out(*ids)

    assert _taken(sql, limit=2) == ids[:2]
    assert _taken(sql, limit=2) == ids[2:4]
    assert _taken(sql) == ids[4:]


def test_skips_rows_that_another_session_has_locked(sql: Contract, other: Contract) -> None:
    """One open transaction of a handler may not stop the recovery of the whole schema."""
    settling, lost = sql.new_attempt(), sql.new_attempt()
    sql.run_out(settling["job_id"], lost["job_id"])

    with sql.conn.transaction(force_rollback=True):
        sql.complete(job_id=settling["job_id"], attempt_id=settling["attempt_id"])
        assert _taken(other) == [lost["job_id"]]
    assert _taken(other) == [settling["job_id"]]


def test_never_queues_behind_another_pass(sql: Contract, other: Contract) -> None:
    first = sql.new_attempt()
    sql.run_out(first["job_id"])
    with sql.conn.transaction():
        sql.take_back()
        assert other.take_back() == []


def test_wakes_sleepers(sql: Contract, clock: Clock, heard) -> None:
    attempt = sql.new_attempt()
    sql.run_out(attempt["job_id"])
    sql.sleep_until(worker_id="s", queues=["q"], wakes_at=clock.now + timedelta(seconds=5))
    heard()
    sql.take_back()

    assert heard() == ["q"]


# -- after an outage owners come first --------------------------------------------------------------------------


def test_the_first_pass_ever_gives_no_grace(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(lease=timedelta(seconds=10))
    clock.forward(hours=5)

    assert _taken(sql) == [attempt["job_id"]]


def test_a_pass_after_an_outage_leaves_leases_that_ended_within_it(sql: Contract, clock: Clock) -> None:
    """Their owners may be alive: they get the time until the next pass to beat."""
    before = sql.new_attempt(lease=timedelta(seconds=10))
    during = sql.new_attempt(lease=timedelta(seconds=30))
    clock.forward(seconds=9)
    assert sql.take_back() == []
    sql.run("update taskq.running set lease_expires_at = taskq.clock() where id = %s", before["job_id"])

    clock.forward(seconds=60.000001)
    assert _taken(sql) == [before["job_id"]]
    clock.forward(seconds=5)
    assert _taken(sql) == [during["job_id"]]


def test_a_pass_a_minute_after_the_last_gives_no_grace(sql: Contract, clock: Clock) -> None:
    sql.take_back()
    attempt = sql.new_attempt(lease=timedelta(seconds=10))
    clock.forward(seconds=60)

    assert _taken(sql) == [attempt["job_id"]]


def test_an_owner_that_beats_after_the_outage_keeps_its_job(sql: Contract, clock: Clock) -> None:
    sql.take_back()
    attempt = sql.new_attempt(lease=timedelta(seconds=30))
    clock.forward(hours=1)
    assert sql.take_back() == []
    sql.heartbeat(worker_id="w", job_ids=[attempt["job_id"]], attempt_ids=[attempt["attempt_id"]])
    clock.forward(seconds=5)

    assert sql.take_back() == []


def test_a_clock_that_went_back_takes_back_nothing_early(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(lease=timedelta(seconds=30))
    clock.forward(seconds=29)
    sql.take_back()
    clock.forward(seconds=-20)

    assert sql.take_back() == []
    clock.forward(seconds=21)
    assert _taken(sql) == [attempt["job_id"]]


@pytest.mark.parametrize("limit", [None, 0, -1, 10_001])
def test_refuses_a_limit_out_of_bounds(sql: Contract, limit: int | None) -> None:
    shown = "null" if limit is None else limit
    with refused("TQ422", f"p_limit {shown} of take_back is outside 1 to 10000"):
        sql.take_back(limit=limit)
