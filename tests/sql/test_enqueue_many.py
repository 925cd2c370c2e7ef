"""Many jobs of one queue in one document: order, the same answers as `enqueue`, all or nothing."""

# Scenarios B30, B35.

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Connection, Contract, refused

# One document value for every parameter of `enqueue`, and what `enqueue` is given for the same job.
SAME_JOB: list[tuple[str, Any, Any]] = [
    ("payload", {"a": [1, None]}, Jsonb({"a": [1, None]})),
    ("priority", 7, 7),
    ("scheduled_at", "2029-12-31T23:59:59.5+02:00", "2029-12-31 21:59:59.5+00"),
    ("delay", 1.5, timedelta(seconds=1.5)),
    ("delay", "2 hours 3 minutes", timedelta(minutes=123)),
    ("unique_key", "u", "u"),
    ("concurrency_key", "c", "c"),
    ("max_attempts", 9, 9),
    ("backoff", "PT2S", timedelta(seconds=2)),
    ("backoff_max", 60, timedelta(seconds=60)),
    ("lease", 0.25, timedelta(seconds=0.25)),
    ("ttl", "1 day", timedelta(days=1)),
    ("headers", {"trace": "x"}, Jsonb({"trace": "x"})),
    ("unique_mode", "replace", "replace"),
    ("unique_scope", "waiting", "waiting"),
    ("unique_for", "1 hour", timedelta(hours=1)),
    ("ordered", True, True),
]


def test_returns_ordinal_status_and_id(sql: Contract) -> None:
    assert sql.columns("enqueue_many", queue="q", jobs=Jsonb([])) == ["ordinal", "status", "job_id"]


def test_answers_in_the_order_of_the_document_from_zero(sql: Contract) -> None:
    rows = sql.enqueue_many(queue="q", jobs=Jsonb([{"task": f"t{n}"} for n in range(50)]))

    assert [row["ordinal"] for row in rows] == list(range(50))
    assert [sql.job(row["job_id"])["task"] for row in rows] == [f"t{n}" for n in range(50)]
    assert {row["status"] for row in rows} == {"created"}


def test_stores_nothing_for_an_empty_document(sql: Contract, heard) -> None:
    assert sql.enqueue_many(queue="q", jobs=Jsonb([])) == []
    assert heard() == []


@pytest.mark.parametrize(("name", "in_document", "as_argument"), SAME_JOB)
def test_stores_the_same_job_as_enqueue(
    sql: Contract, clock: Clock, name: str, in_document: Any, as_argument: Any
) -> None:
    key = (
        {"unique_key": "k"}
        if name.startswith("unique_")
        else {"concurrency_key": "k"}
        if name == "ordered"
        else {}
    )
    [row] = sql.enqueue_many(queue="many", jobs=Jsonb([{"task": "t", **key, name: in_document}]))
    single = sql.new_job(queue="single", **{**key, name: as_argument})

    assert {**sql.job(row["job_id"]), "id": single, "queue": "single"} == sql.job(single)
    keys = sql.rows("select key, waiting, free, expires_at from taskq.unique_keys order by queue")
    assert keys[:1] == keys[1:]
    ready = sql.rows("select hold, is_unique, is_ordered from taskq.ready order by queue")
    assert ready[:1] == ready[1:]


def test_knows_every_parameter_of_enqueue(sql: Contract) -> None:
    names = sql.value("select proargnames from pg_proc where oid = to_regproc('taskq.enqueue')")
    parameters = {name.removeprefix("p_") for name in names if name.startswith("p_")}

    assert parameters == {name for name, _, _ in SAME_JOB} | {"queue", "task", "skip_wake"}


def test_null_means_the_default_for_every_property(sql: Contract, clock: Clock) -> None:
    nulls = {"task": "t", **{name: None for name, _, _ in SAME_JOB}}
    [row] = sql.enqueue_many(queue="q", jobs=Jsonb([nulls]))
    plain = sql.new_job()

    assert {**sql.job(row["job_id"]), "id": plain} == sql.job(plain)


def test_keeps_nulls_inside_a_payload(sql: Contract) -> None:
    payload = {"a": None, "b": {"c": None}, "d": [None]}
    [row] = sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t", "payload": payload}]))

    assert sql.job(row["job_id"])["payload"] == payload


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"task": "t", "dealy": 60}, 'has an unknown property "dealy"'),
        ({"task": "t", "queue": "other"}, 'has an unknown property "queue"'),
        ({"task": "t", "": 1}, 'has an unknown property ""'),
        ({}, "a task name is required"),
        ({"task": "t", "payload": [1]}, "payload must be a JSON object, not array"),
        ({"task": "t", "payload": '{"a": 1}'}, "payload must be a JSON object, not string"),
        ({"task": "t", "priority": 1e10}, "cannot be read: "),
        ({"task": "t", "priority": 1.5}, "cannot be read: "),
        ({"task": "t", "priority": "high"}, "cannot be read: "),
        ({"task": "t", "scheduled_at": "yesterday-ish"}, "cannot be read: "),
        ({"task": "t", "scheduled_at": 12345}, "cannot be read: "),
        ({"task": "t", "delay": True}, "cannot be read: "),
        ({"task": "t", "delay": {"soon": 1}}, "cannot be read: "),
        ({"task": "t", "delay": -1}, "delay -00:00:01 is outside 0 to 366 days"),
        ({"task": "t", "lease": "2 days"}, "lease 2 days is outside 0.1 s to 1 day"),
        ("t", "is a JSON string, not an object"),
        (None, "is a JSON null, not an object"),
        ([{"task": "t"}], "is a JSON array, not an object"),
    ],
)
def test_refuses_the_whole_document_for_one_bad_job_and_names_its_ordinal(
    sql: Contract, bad: Any, message: str
) -> None:
    jobs = Jsonb([{"task": "good"}, bad, {"task": "good"}, bad])

    with refused("TQ422", message, detail="ordinal 1"):
        sql.enqueue_many(queue="q", jobs=jobs)
    with refused("TQ422", "the job at ordinal 1"):
        sql.enqueue_many(queue="q", jobs=jobs)
    assert sql.list_jobs() == []


def test_names_the_known_properties_beside_an_unknown_one(sql: Contract) -> None:
    with refused("TQ422", hint="Known: task, payload, priority"):
        sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t", "taks": 1}]))


@pytest.mark.parametrize("document", [None, {"task": "t"}, "t", 1])
def test_refuses_what_is_no_array(sql: Contract, document: Any) -> None:
    with refused("TQ422", "p_jobs must be a JSON array of objects, not "):
        sql.enqueue_many(queue="q", jobs=None if document is None else Jsonb(document))


def test_refuses_a_bad_queue_name_also_without_jobs(sql: Contract) -> None:
    with refused("TQ422", "a queue name is required"):
        sql.enqueue_many(queue="", jobs=Jsonb([]))


def test_takes_ten_thousand_jobs_and_no_more(sql: Contract) -> None:
    jobs = [{"task": "t"}] * 10_000

    assert len(sql.enqueue_many(queue="q", jobs=Jsonb(jobs))) == 10_000
    with refused("TQ422", "10001 jobs in one call are over the cap of 10000", hint="Split"):
        sql.enqueue_many(queue="q", jobs=Jsonb([*jobs, {"task": "t"}]))


def test_takes_eight_mebibytes_and_no_more(sql: Contract) -> None:
    def document(size: int) -> str:
        jobs = [{"task": "t", "payload": {"x": "y" * 60_000}} for _ in range(139)]
        rest = size - len(json.dumps([*jobs, {"task": "t", "payload": {"x": ""}}]))
        return json.dumps([*jobs, {"task": "t", "payload": {"x": "y" * rest}}])

    assert len(sql.enqueue_many(queue="q", jobs=document(8_388_608))) == 140
    with refused("TQ422", "a document of 8388609 bytes is over the cap of 8388608", hint="Split"):
        sql.enqueue_many(queue="q", jobs=document(8_388_609))


def test_a_duplicate_never_fails_the_batch(sql: Contract) -> None:
    holder = sql.new_job(unique_key="held")
    rows = sql.enqueue_many(
        queue="q",
        jobs=Jsonb([{"task": "t", "unique_key": key} for key in ("a", "held", "a", None, None, "b")]),
    )

    assert [row["status"] for row in rows] == [
        "created",
        "existed",
        "existed",
        "created",
        "created",
        "created",
    ]
    assert rows[1]["job_id"] == holder
    assert rows[2]["job_id"] == rows[0]["job_id"]
    assert len({row["job_id"] for row in rows}) == 5
    assert len(sql.list_jobs()) == 5


def test_a_document_of_duplicates_stores_nothing_and_notifies_nobody(sql: Contract, heard) -> None:
    sql.new_job(unique_key="k")
    heard()
    rows = sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t", "unique_key": "k"}] * 3))

    assert [row["status"] for row in rows] == ["existed"] * 3
    assert heard() == []


def test_notifies_once_for_the_whole_document(sql: Contract, heard) -> None:
    sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t"}] * 20))
    assert heard() == ["q"]


def test_skips_the_notification_by_the_earliest_job(sql: Contract, clock: Clock, heard) -> None:
    sql.sleep_until(worker_id="w", queues=["q"], wakes_at=clock.now + timedelta(seconds=5))

    sql.enqueue_many(
        queue="q", jobs=Jsonb([{"task": "t", "delay": 9}, {"task": "t", "delay": 6}]), skip_wake=True
    )
    assert heard() == []
    sql.enqueue_many(
        queue="q", jobs=Jsonb([{"task": "t", "delay": 9}, {"task": "t", "delay": 4}]), skip_wake=True
    )
    assert heard() == ["q"]


def test_stamps_the_policy_of_the_queue_on_every_job(sql: Contract) -> None:
    sql.set_queue(queue="q", max_attempts=2)
    rows = sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t"}, {"task": "t", "max_attempts": 3}]))

    assert [sql.job(row["job_id"])["max_attempts"] for row in rows] == [2, 3]


def test_refuses_an_unknown_queue_where_queues_are_strict(sql: Contract) -> None:
    sql.set_strict_queues(strict=True)
    with refused("TQ001", 'no queue "q"'):
        sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t"}]))


def test_takes_the_keys_in_one_order_whatever_that_of_the_document(
    sql: Contract, other: Contract, connect: Callable[..., Connection], wait_until_blocked
) -> None:
    """So two documents with the same keys never deadlock (B30): who waits for a key holds none behind it."""
    third = Contract(connect())
    third.run("set statement_timeout = '10s'")
    document = Jsonb([{"task": "t", "unique_key": key} for key in ("z", "m", "a")])

    with ThreadPoolExecutor(1) as pool:
        with sql.conn.transaction():
            sql.new_job(unique_key="m")
            waiting = pool.submit(lambda: other.enqueue_many(queue="q", jobs=document))
            wait_until_blocked(other.conn)
            third.new_job(unique_key="z")
        assert [row["status"] for row in waiting.result()] == ["existed", "existed", "created"]
