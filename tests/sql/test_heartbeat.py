"""One beat for all attempts of a worker: leases, checkpoints, cancel requests; it waits for nobody."""

# Scenarios B02, B05, B87.

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row, refused


def _beat(sql: Contract, *attempts: Row, **arguments: Any) -> list[Row]:
    return sql.heartbeat(
        worker_id="w",
        job_ids=[each["job_id"] for each in attempts],
        attempt_ids=[each["attempt_id"] for each in attempts],
        **arguments,
    )


def test_returns_the_columns_of_a_beat(sql: Contract) -> None:
    assert sql.columns("heartbeat", worker_id="w", job_ids=[], attempt_ids=[]) == [
        "job_id",
        "attempt_id",
        "state",
        "cancel_requested",
        "lease_expires_at",
        "progress_stored",
    ]


def test_renews_by_the_lease_of_the_attempt(sql: Contract, clock: Clock) -> None:
    sql.new_job(lease=timedelta(seconds=90))
    attempt = sql.take(lease=timedelta(seconds=40))
    clock.forward(seconds=13)

    assert _beat(sql, attempt) == [
        {
            "job_id": attempt["job_id"],
            "attempt_id": attempt["attempt_id"],
            "state": "ok",
            "cancel_requested": False,
            "lease_expires_at": clock.now + timedelta(seconds=40),
            "progress_stored": None,
        }
    ]
    assert sql.job(attempt["job_id"])["lease_expires_at"] == clock.now + timedelta(seconds=40)


def test_a_lease_of_the_call_is_for_this_beat_only(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(lease=timedelta(seconds=40))

    [beat] = _beat(sql, attempt, lease=timedelta(seconds=7))
    assert beat["lease_expires_at"] == clock.now + timedelta(seconds=7)
    [beat] = _beat(sql, attempt)
    assert beat["lease_expires_at"] == clock.now + timedelta(seconds=40)


def test_may_be_sent_twice(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    assert _beat(sql, attempt) == _beat(sql, attempt)


def test_revives_a_lease_that_ran_out_but_nobody_took_back(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    clock.forward(hours=3)

    assert _beat(sql, attempt)[0]["state"] == "ok"
    assert sql.take_back() == []
    assert sql.job(attempt["job_id"])["current_attempt_id"] == attempt["attempt_id"]


def test_answers_in_the_order_of_the_lists_also_for_an_attempt_named_twice(sql: Contract) -> None:
    attempts = [sql.new_attempt() for _ in range(5)]
    asked = [attempts[3], attempts[0], attempts[4], attempts[0]]
    beats = _beat(sql, *asked)

    assert [beat["attempt_id"] for beat in beats] == [each["attempt_id"] for each in asked]
    assert {beat["state"] for beat in beats} == {"ok"}


def test_answers_nothing_for_nothing(sql: Contract) -> None:
    assert _beat(sql) == []


def test_does_not_compare_the_worker(sql: Contract) -> None:
    """The fence decides, not a name that another process may have, too (B01)."""
    attempt = sql.new_attempt()
    [beat] = sql.heartbeat(
        worker_id="somebody else", job_ids=[attempt["job_id"]], attempt_ids=[attempt["attempt_id"]]
    )
    assert beat["state"] == "ok"


def _settled(sql: Contract) -> Row:
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    return attempt


def _taken_back(sql: Contract) -> Row:
    attempt = sql.new_attempt()
    sql.run_out(attempt["job_id"])
    sql.take_back()
    return attempt


def _owned_by_a_later_attempt(sql: Contract) -> Row:
    attempt = _taken_back(sql)
    assert sql.take()["job_id"] == attempt["job_id"]
    return attempt


def _unknown(sql: Contract) -> Row:
    return {"job_id": 10**12, "attempt_id": 1}


@pytest.mark.parametrize("became", [_settled, _taken_back, _owned_by_a_later_attempt, _unknown])
def test_an_attempt_that_does_not_run_is_lost(sql: Contract, became: Any) -> None:
    attempt = became(sql)

    assert _beat(sql, attempt, progress={str(attempt["job_id"]): 1}) == [
        {
            "job_id": attempt["job_id"],
            "attempt_id": attempt["attempt_id"],
            "state": "lost",
            "cancel_requested": False,
            "lease_expires_at": None,
            "progress_stored": False,
        }
    ]


def test_a_lost_attempt_renews_nothing_of_its_successor(sql: Contract, clock: Clock) -> None:
    stale = _owned_by_a_later_attempt(sql)
    before = sql.job(stale["job_id"])
    clock.forward(seconds=5)

    _beat(sql, stale, progress={str(stale["job_id"]): "stale"})
    assert sql.job(stale["job_id"]) == before


def test_a_lost_and_a_valid_attempt_of_one_job_in_one_beat(sql: Contract) -> None:
    stale = _taken_back(sql)
    valid = sql.take()

    assert [beat["state"] for beat in _beat(sql, stale, valid)] == ["lost", "ok"]


def test_a_locked_row_is_busy_and_not_waited_for(sql: Contract, other: Contract, clock: Clock) -> None:
    """One open transaction of a handler may not stop the beat of its whole worker (hard spot 12)."""
    settling, running = sql.new_attempt(), sql.new_attempt()
    expires_at = settling["lease_expires_at"]
    clock.forward(seconds=5)

    with sql.conn.transaction(force_rollback=True):
        sql.complete(job_id=settling["job_id"], attempt_id=settling["attempt_id"])
        busy, ok = _beat(other, settling, running, progress={str(settling["job_id"]): 1})

    assert (busy["state"], busy["lease_expires_at"], busy["progress_stored"]) == ("busy", None, False)
    assert ok["state"] == "ok"
    after = sql.job(settling["job_id"])
    assert (after["lease_expires_at"], after["progress"]) == (expires_at, None)
    assert _beat(sql, settling)[0]["state"] == "ok"


@pytest.mark.parametrize("busy", [False, True])
def test_delivers_a_cancel_request(sql: Contract, other: Contract, busy: bool) -> None:
    attempt = sql.new_attempt()
    sql.cancel_job(job_id=attempt["job_id"])

    with other.conn.transaction():
        if busy:
            other.rows("select from taskq.running where id = %s for update", attempt["job_id"])
        [beat] = _beat(sql, attempt)
    assert (beat["state"], beat["cancel_requested"]) == ("busy" if busy else "ok", True)


@pytest.mark.parametrize("checkpoint", [{"page": 7}, [1, "é"], "text", 0, False, None])
def test_stores_a_checkpoint_of_any_json(sql: Contract, checkpoint: Any) -> None:
    attempt = sql.new_attempt()
    [beat] = _beat(sql, attempt, progress={str(attempt["job_id"]): checkpoint})

    assert beat["progress_stored"] is True
    assert sql.job(attempt["job_id"])["progress"] == checkpoint


def test_stores_checkpoints_only_of_those_that_sent_one(sql: Contract) -> None:
    first, second = sql.new_attempt(), sql.new_attempt()
    _beat(sql, first, second, progress={str(first["job_id"]): 1, str(second["job_id"]): 2})
    beats = _beat(sql, first, second, progress={str(first["job_id"]): 3, "999999": 4})

    assert [beat["progress_stored"] for beat in beats] == [True, None]
    assert [sql.job(each["job_id"])["progress"] for each in (first, second)] == [3, 2]


def test_an_oversized_checkpoint_is_not_stored_and_the_lease_is_renewed(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt()
    key = str(attempt["job_id"])
    _beat(sql, attempt, progress={key: "x" * 2046})
    clock.forward(seconds=5)
    [beat] = _beat(sql, attempt, progress={key: "x" * 2047})

    assert (beat["state"], beat["progress_stored"]) == ("ok", False)
    assert beat["lease_expires_at"] == clock.now + attempt["lease"]
    assert sql.job(attempt["job_id"])["progress"] == "x" * 2046


def test_is_a_hot_update(sql: Contract) -> None:
    """A beat of every job of every worker may not touch an index (B87)."""
    attempt = sql.new_attempt()
    with sql.conn.transaction():
        _beat(sql, attempt, progress={str(attempt["job_id"]): {"page": 1}})
        updated, hot = sql.conn.execute(
            "select pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c) "
            "from (select 'taskq.running'::regclass::oid) as t (c)"
        ).fetchone()
    assert (updated, hot) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"worker_id": None}, "p_worker_id must be 1 to 255 bytes"),
        ({"worker_id": ""}, "p_worker_id must be 1 to 255 bytes"),
        ({"worker_id": "w" * 256}, "p_worker_id must be 1 to 255 bytes"),
        ({"job_ids": None}, "must be lists of equal length"),
        ({"attempt_ids": None}, "must be lists of equal length"),
        ({"attempt_ids": [1, 2]}, "must be lists of equal length"),
        ({"job_ids": [None]}, "must be plain lists without null"),
        ({"attempt_ids": [None]}, "must be plain lists without null"),
        ({"job_ids": [[1]]}, "must be plain lists without null"),
        (
            {"job_ids": [1] * 10_001, "attempt_ids": [1] * 10_001},
            "10001 attempts in one beat are over the cap of 10000",
        ),
        ({"lease": timedelta(milliseconds=99)}, "is outside 0.1 s to 1 day"),
        ({"lease": timedelta(days=2)}, "is outside 0.1 s to 1 day"),
        ({"progress": Jsonb([1])}, "p_progress must be a JSON object, not array"),
    ],
)
def test_refuses_what_is_out_of_bounds(sql: Contract, arguments: dict[str, Any], message: str) -> None:
    with refused("TQ422", message):
        sql.heartbeat(**{"worker_id": "w", "job_ids": [1], "attempt_ids": [1], **arguments})


def test_takes_a_worker_of_ten_thousand_attempts(sql: Contract) -> None:
    states = sql.heartbeat(worker_id="w", job_ids=[1] * 10_000, attempt_ids=list(range(1, 10_001)))
    assert [row["state"] for row in states] == ["lost"] * 10_000
