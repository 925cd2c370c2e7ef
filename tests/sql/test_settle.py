"""Many verdicts in one document: order, bad elements, what is stored. The truth table has a file of its own."""

# Scenarios B04, B38.

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Connection, Contract, Row, refused
from kit.flavours import says


def _verdict(attempt: Row, verb: str, **fields: Any) -> dict[str, Any]:
    return {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"], "verb": verb, **fields}


def _settle(sql: Contract, *elements: Any, worker_id: str | None = "w") -> list[Row]:
    return sql.settle(worker_id=worker_id, settlements=Jsonb(list(elements)))


def test_returns_the_columns_of_a_settlement(sql: Contract) -> None:
    assert sql.columns("settle", worker_id="w", settlements=Jsonb([])) == [
        "job_id",
        "attempt_id",
        "result",
        "status",
        "scheduled_at",
        "reason",
    ]


def test_answers_nothing_for_nothing(sql: Contract) -> None:
    assert _settle(sql) == []


def test_settles_every_verb_in_one_document_in_its_order(sql: Contract, clock: Clock) -> None:
    a = [sql.new_attempt(backoff=timedelta(0), max_attempts=2) for _ in range(6)]
    rows = _settle(
        sql,
        _verdict(a[5], "cancel", reason="not needed"),
        _verdict(a[0], "complete", result={"n": 1}),
        _verdict(a[3], "snooze", delay=1.5),
        _verdict(a[1], "fail", error="boom"),
        _verdict(a[4], "release", delay="2 minutes"),
        _verdict(a[2], "fail", error="bad", retryable=False),
    )

    assert [
        (row["attempt_id"], row["result"], row["status"], row["scheduled_at"], row["reason"]) for row in rows
    ] == [
        (a[5]["attempt_id"], "ok", "cancelled", None, None),
        (a[0]["attempt_id"], "ok", "succeeded", None, None),
        (a[3]["attempt_id"], "ok", "queued", clock.now + timedelta(seconds=1.5), None),
        (a[1]["attempt_id"], "retry_scheduled", "queued", clock.now, None),
        (a[4]["attempt_id"], "ok", "queued", clock.now + timedelta(minutes=2), None),
        (a[2]["attempt_id"], "dead", "failed", None, None),
    ]
    assert [row["job_id"] for row in rows] == [a[n]["job_id"] for n in (5, 0, 3, 1, 4, 2)]
    assert [sql.job(each["job_id"])["status"] for each in a] == [
        "succeeded",
        "queued",
        "failed",
        "queued",
        "queued",
        "cancelled",
    ]


def test_records_the_worker_it_is_given_and_does_not_compare_it(sql: Contract) -> None:
    done, again = sql.new_attempt(), sql.new_attempt()
    _settle(sql, _verdict(done, "complete"), _verdict(again, "snooze", delay=1), worker_id="somebody else")

    assert sql.job(done["job_id"])["worker_id"] == "somebody else"
    assert sql.job_history(job_id=again["job_id"])[0]["worker_id"] == "somebody else"


def test_without_a_worker_it_records_who_claimed(sql: Contract) -> None:
    done, again = sql.new_attempt(), sql.new_attempt()
    _settle(sql, _verdict(done, "complete"), _verdict(again, "snooze", delay=1), worker_id=None)

    assert sql.job(done["job_id"])["worker_id"] == "w"
    assert sql.job_history(job_id=again["job_id"])[0]["worker_id"] == "w"


GOOD_AND_BAD: list[tuple[Any, str]] = [
    ({"verb": "done"}, 'verb must be complete, fail, snooze, release or cancel, not "done"'),
    ({"verb": "take_back"}, 'not "take_back"'),
    ({"verb": None}, "verb must be complete, fail, snooze, release or cancel, not null"),
    ({"job_id": None}, "job_id and attempt_id are required"),
    ({"attempt_id": None}, "job_id and attempt_id are required"),
    ({"job_id": "seven"}, "seven"),
    ({"job_id": 1e30}, "out of range"),
    ({"attempt_id": 1.5}, "1.5"),
    ({"verb": "complete", "resutl": 1}, 'unknown property "resutl"'),
    ({"verb": "complete", "fault": "x"}, 'unknown property "fault"'),
    ({"verb": "complete", "result": "x" * 8191}, "a result of 8193 bytes is over the cap of 8192"),
    ({"verb": "fail", "retryable": "perhaps"}, "perhaps"),
    ({"verb": "fail", "retry_after": -1}, "retry_after -00:00:01 is outside 0 to 366 days"),
    ({"verb": "fail", "retry_after": "367 days"}, "retry_after 367 days is outside 0 to 366 days"),
    ({"verb": "fail", "retry_after": "soon"}, "soon"),
    ({"verb": "fail", "progress": "x" * 2047}, "progress of 2049 bytes is over the cap of 2048"),
    ({"verb": "snooze"}, "delay null of a snooze is outside 0.1 s to 366 days"),
    ({"verb": "snooze", "delay": 0.099}, "of a snooze is outside 0.1 s to 366 days"),
    ({"verb": "snooze", "delay": 0}, "of a snooze is outside 0.1 s to 366 days"),
    ({"verb": "snooze", "delay": "367 days"}, "of a snooze is outside 0.1 s to 366 days"),
    ({"verb": "release", "delay": -0.001}, "is outside 0 to 366 days"),
    ({"verb": "release", "delay": "367 days"}, "delay 367 days is outside 0 to 366 days"),
    ({"verb": "release", "progress": "x" * 2047}, "progress of 2049 bytes is over the cap of 2048"),
]


@pytest.mark.parametrize(("fields", "reason"), GOOD_AND_BAD)
def test_a_bad_element_is_rejected_and_the_others_settle(
    sql: Contract, fields: dict[str, Any], reason: str
) -> None:
    first, bad, last = (sql.new_attempt() for _ in range(3))
    rows = _settle(
        sql,
        _verdict(first, "complete"),
        {"job_id": bad["job_id"], "attempt_id": bad["attempt_id"], "verb": "complete", **fields},
        _verdict(last, "complete"),
    )

    assert [row["result"] for row in rows] == ["ok", "rejected", "ok"]
    assert says(rows[1]["reason"], reason)
    assert (rows[1]["status"], rows[1]["scheduled_at"]) == (None, None)
    assert sql.job(bad["job_id"])["current_attempt_id"] == bad["attempt_id"]


@pytest.mark.parametrize("element", ["complete", 7, None, [], True])
def test_an_element_that_is_no_object_is_rejected_at_its_place(sql: Contract, element: Any) -> None:
    attempt = sql.new_attempt()
    rows = _settle(sql, element, _verdict(attempt, "complete"))

    assert [row["result"] for row in rows] == ["rejected", "ok"]
    assert "not an object" in rows[0]["reason"]
    assert (rows[0]["job_id"], rows[0]["attempt_id"]) == (None, None)


def test_a_rejected_element_keeps_its_ids_where_they_can_be_read(sql: Contract) -> None:
    attempt = sql.new_attempt()
    [row] = _settle(sql, _verdict(attempt, "snooze", delay="soon"))

    assert (row["job_id"], row["attempt_id"]) == (attempt["job_id"], attempt["attempt_id"])


def test_a_rejected_element_does_not_shadow_a_good_one_of_the_same_attempt(sql: Contract) -> None:
    attempt = sql.new_attempt()
    rows = _settle(sql, _verdict(attempt, "snooze", delay=0), _verdict(attempt, "complete"))

    assert [row["result"] for row in rows] == ["rejected", "ok"]


@pytest.mark.parametrize("document", [None, {"verb": "complete"}, "x", 7])
def test_refuses_what_is_no_array(sql: Contract, document: Any) -> None:
    with refused("TQ422", "p_settlements must be a JSON array of objects, not "):
        sql.settle(worker_id="w", settlements=None if document is None else Jsonb(document))


@pytest.mark.parametrize("worker_id", ["", "é" * 128])
def test_refuses_what_cannot_be_a_worker(sql: Contract, worker_id: str) -> None:
    attempt = sql.new_attempt()
    with refused("TQ422", "p_worker_id must be 1 to 255 bytes, or null"):
        _settle(sql, _verdict(attempt, "complete"), worker_id=worker_id)


def test_takes_ten_thousand_elements_and_no_more(sql: Contract) -> None:
    element = {"job_id": 1, "attempt_id": 1, "verb": "complete"}

    assert len(_settle(sql, *[element] * 10_000)) == 10_000
    with refused("TQ422", "10001 settlements in one call are over the cap of 10000"):
        _settle(sql, *[element] * 10_001)


def test_a_failure_after_it_settled_takes_everything_back(sql: Contract) -> None:
    attempt = sql.new_attempt()
    with sql.conn.transaction(force_rollback=True):
        _settle(sql, _verdict(attempt, "complete"))

    assert sql.job(attempt["job_id"])["status"] == "running"
    assert _settle(sql, _verdict(attempt, "complete"))[0]["result"] == "ok"


def test_replays_a_whole_document_without_effect(sql: Contract, clock: Clock) -> None:
    attempts = [sql.new_attempt() for _ in range(4)]
    document = [
        _verdict(attempts[0], "complete", result=1),
        _verdict(attempts[1], "fail", error="boom"),
        _verdict(attempts[2], "snooze", delay=5),
        _verdict(attempts[3], "cancel"),
    ]
    first = _settle(sql, *document)
    jobs = [sql.job(each["job_id"]) for each in attempts]
    clock.forward(seconds=1)
    second = _settle(sql, *document)

    assert second == [{**row, "result": "already_settled"} for row in first]
    assert [sql.job(each["job_id"]) for each in attempts] == jobs


def test_wakes_sleepers_once_per_queue_for_what_is_due_again(sql: Contract, clock: Clock, heard) -> None:
    sql.sleep_until(worker_id="s", queues=["q", "r"], wakes_at=clock.now + timedelta(seconds=5))
    in_q = [sql.new_attempt() for _ in range(3)]
    in_r = sql.new_attempt(queue="r")
    heard()

    _settle(
        sql,
        _verdict(in_q[0], "release"),
        _verdict(in_q[1], "release"),
        _verdict(in_q[2], "complete"),
        _verdict(in_r, "snooze", delay=6),
    )
    assert heard() == ["q"]


def test_wakes_nobody_when_all_sleepers_wake_in_time(sql: Contract, clock: Clock, heard) -> None:
    attempt = sql.new_attempt()
    heard()
    _settle(sql, _verdict(attempt, "release"))

    assert heard() == []


@pytest.mark.parametrize("verb", ["complete", "cancel"])
def test_locks_the_jobs_by_id_whatever_the_order_of_the_document(
    verb: str, sql: Contract, other: Contract, connect: Callable[..., Connection], wait_until_blocked
) -> None:
    """So two documents over the same jobs never deadlock (B38): who waits for a job holds none behind it."""
    third = Contract(connect())
    third.run("set statement_timeout = '10s'")
    first, middle, last = (sql.new_attempt() for _ in range(3))
    document = [_verdict(each, verb) for each in (last, middle, first)]

    with ThreadPoolExecutor(1) as pool:
        with sql.conn.transaction():
            _settle(sql, _verdict(middle, verb))
            waiting = pool.submit(lambda: _settle(other, *document))
            wait_until_blocked(other.conn)
            assert _settle(third, _verdict(last, verb))[0]["result"] == "ok"
        assert [row["result"] for row in waiting.result()] == ["already_settled", "already_settled", "ok"]


def test_locks_the_jobs_by_id_however_much_their_results_take(
    sql: Contract, other: Contract, connect: Callable[..., Connection], wait_until_blocked
) -> None:
    """A join that has to put a part of them on the disk returns its rows in another order."""
    third = Contract(connect())
    third.run("set statement_timeout = '10s'")
    other.run("set work_mem = '64kB'")
    first, *others = (sql.new_attempt() for _ in range(60))

    with ThreadPoolExecutor(1) as pool:
        with sql.conn.transaction():
            _settle(sql, _verdict(first, "complete"))
            document = [_verdict(each, "complete", result="x" * 8000) for each in (*others, first)]
            waiting = pool.submit(lambda: _settle(other, *document))
            wait_until_blocked(other.conn)
            assert {
                row["result"] for row in _settle(third, *(_verdict(each, "complete") for each in others))
            } == {"ok"}
        assert {row["result"] for row in waiting.result()} == {"already_settled"}


def test_locks_the_jobs_by_id_when_they_do_not_fit_into_the_memory_of_a_join(
    sql: Contract, other: Contract, connect: Callable[..., Connection], wait_until_blocked
) -> None:
    sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t"}] * 300))
    claimed = sql.claim(queues=["q"], worker_id="w", limit=300)
    middle = claimed[150]
    document = [_verdict(each, "complete", result="x" * 8000) for each in claimed]
    other.run("set work_mem = '64kB'")

    with ThreadPoolExecutor(1) as pool:
        with sql.conn.transaction():
            sql.run("select from taskq.running where id = %s for update", middle["job_id"])
            waiting = pool.submit(lambda: _settle(other, *document))
            wait_until_blocked(other.conn)
            free = Contract(connect()).rows("select id from taskq.running for update skip locked")
        assert {row["result"] for row in waiting.result()} == {"ok"}

    assert {row["id"] for row in free} == {each["job_id"] for each in claimed[151:]}
