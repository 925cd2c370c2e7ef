"""One job through `enqueue`: what is stored, what is refused, uniqueness, and who is notified."""

# Scenarios B30, B33, B34, B39, B81, B86.

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, refused

HOUR = timedelta(hours=1)


def test_returns_status_and_id(sql: Contract) -> None:
    assert sql.columns("enqueue", queue="q", task="t") == ["status", "job_id"]


def test_stores_a_job_with_the_defaults(sql: Contract, clock: Clock) -> None:
    job_id = sql.new_job(queue="mail", task="mail.welcome")

    assert sql.job(job_id) == {
        "id": job_id,
        "queue": "mail",
        "task": "mail.welcome",
        "status": "queued",
        "outcome": None,
        "payload": {},
        "headers": None,
        "priority": 0,
        "unique_key": None,
        "concurrency_key": None,
        "max_attempts": 5,
        "backoff": timedelta(seconds=30),
        "backoff_max": HOUR,
        "lease": timedelta(seconds=60),
        "ttl": None,
        "created_at": clock.now,
        "scheduled_at": clock.now,
        "expires_at": None,
        "hold": None,
        "attempt_count": 0,
        "failure_count": 0,
        "expiry_streak": 0,
        "snooze_count": 0,
        "progress": None,
        "current_attempt_id": None,
        "worker_id": None,
        "claimed_at": None,
        "lease_expires_at": None,
        "cancel_requested_at": None,
        "result": None,
        "error": None,
        "reason": None,
        "finished_at": None,
        "purge_at": None,
        "parent_job_id": None,
        "root_job_id": None,
        "enqueued_by": sql.value("select session_user"),
        "ordered": False,
    }


EVERYTHING = {
    "payload": {"user_id": 7, "note": "naïve 😀", "none": None},
    "priority": -3,
    "delay": timedelta(minutes=5),
    "unique_key": "w:7",
    "concurrency_key": "user:7",
    "max_attempts": 8,
    "backoff": timedelta(seconds=2),
    "backoff_max": timedelta(seconds=90),
    "lease": timedelta(seconds=45),
    "ttl": HOUR,
    "headers": {"trace": "abc"},
}


def test_stores_every_argument(sql: Contract, clock: Clock) -> None:
    job = sql.job(sql.new_job(**EVERYTHING))

    stored = {name: job[name] for name in EVERYTHING if name != "delay"}
    assert stored == {name: value for name, value in EVERYTHING.items() if name != "delay"}
    assert job["scheduled_at"] == clock.now + timedelta(minutes=5)
    assert job["expires_at"] == clock.now + timedelta(minutes=65)
    assert job["created_at"] == clock.now


def test_null_means_the_default_for_every_argument(sql: Contract, clock: Clock) -> None:
    plain = sql.job(sql.new_job())
    nulls = sql.job(sql.new_job(**dict.fromkeys(EVERYTHING), scheduled_at=None, skip_wake=None))

    assert {**nulls, "id": plain["id"]} == plain


def test_keeps_an_instant_as_it_is_also_a_past_one(sql: Contract) -> None:
    instant = datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=timezone(timedelta(hours=5, minutes=30)))

    assert sql.job(sql.new_job(scheduled_at=instant))["scheduled_at"] == instant


def test_counts_from_the_statement_not_from_the_start_of_the_transaction(sql: Contract) -> None:
    with sql.conn.transaction():
        sql.value("select now()")
        job = sql.job(sql.new_job(delay=timedelta(0)))
        assert job["scheduled_at"] == job["created_at"] > sql.value("select now()")


def test_stamps_the_policy_of_the_queue(sql: Contract) -> None:
    policy = {
        "max_attempts": 2,
        "backoff": timedelta(seconds=3),
        "backoff_max": timedelta(seconds=4),
        "lease": timedelta(seconds=5),
        "ttl": timedelta(seconds=6),
    }
    sql.set_queue(queue="q", **policy)

    job = sql.job(sql.new_job())
    assert {name: job[name] for name in policy} == policy
    assert job["expires_at"] == job["scheduled_at"] + policy["ttl"]


def test_prefers_the_argument_to_the_policy_of_the_queue(sql: Contract) -> None:
    sql.set_queue(queue="q", max_attempts=2, backoff=HOUR, backoff_max=HOUR, lease=HOUR, ttl=HOUR)

    job = sql.job(sql.new_job(**EVERYTHING))
    policy = ("max_attempts", "backoff", "backoff_max", "lease", "ttl")
    assert {name: job[name] for name in policy} == {name: EVERYTHING[name] for name in policy}


def test_takes_ids_beyond_32_bits(sql: Contract) -> None:
    sql.run("alter sequence taskq.jobs_id_seq restart with 5000000000")
    try:
        assert sql.new_attempt()["job_id"] == 5_000_000_000
    finally:
        sql.run("alter sequence taskq.jobs_id_seq restart")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queue": None}, "a queue name is required"),
        ({"queue": ""}, "a queue name is required"),
        ({"queue": "a\nb"}, "a queue name must not contain control characters"),
        ({"task": None}, "a task name is required"),
        ({"task": ""}, "a task name is required"),
        ({"task": "a\x7f"}, "a task name must not contain control characters"),
        ({"payload": Jsonb([1])}, "payload must be a JSON object, not array"),
        ({"payload": Jsonb(None)}, "payload must be a JSON object, not null"),
        ({"headers": Jsonb("x")}, "headers must be a JSON object, not string"),
        ({"priority": 32768}, "priority 32768 is outside -32768 to 32767"),
        ({"priority": -32769}, "priority -32769 is outside -32768 to 32767"),
        ({"delay": timedelta(seconds=-1)}, "delay -1 days +23:59:59 is outside 0 to 366 days"),
        ({"delay": timedelta(days=366, seconds=1)}, "is outside 0 to 366 days"),
        ({"scheduled_at": "infinity"}, "scheduled_at infinity is later than 366 days from now or infinite"),
        ({"scheduled_at": "-infinity"}, "scheduled_at -infinity is"),
        ({"scheduled_at": "0044-03-15 BC"}, "is earlier than 1970"),
        ({"scheduled_at": "9999-12-31"}, "is later than 366 days from now"),
        ({"scheduled_at": "2030-01-01", "delay": HOUR}, "scheduled_at and delay exclude each other"),
        ({"unique_key": ""}, "unique_key must not be empty"),
        ({"concurrency_key": ""}, "concurrency_key must not be empty"),
        ({"max_attempts": 0}, "max_attempts 0 is outside 1 to 100000"),
        ({"max_attempts": 100_001}, "max_attempts 100001 is outside 1 to 100000"),
        ({"backoff": timedelta(seconds=-1)}, "backoff -1 days +23:59:59 is outside 0 to 366 days"),
        ({"backoff": timedelta(days=367)}, "backoff 367 days is outside 0 to 366 days"),
        ({"backoff_max": timedelta(seconds=-1)}, "backoff_max -1 days +23:59:59 is outside 0 to 366 days"),
        ({"backoff_max": timedelta(days=367)}, "backoff_max 367 days is outside 0 to 366 days"),
        ({"lease": timedelta(milliseconds=99)}, "lease 00:00:00.099 is outside 0.1 s to 1 day"),
        ({"lease": timedelta(days=1, seconds=1)}, "lease 1 day 00:00:01 is outside 0.1 s to 1 day"),
        ({"ttl": timedelta(0)}, "ttl 00:00:00 is outside 0 to 366 days"),
        ({"ttl": timedelta(days=367)}, "ttl 367 days is outside 0 to 366 days"),
    ],
)
def test_refuses_what_is_out_of_bounds(sql: Contract, arguments: dict[str, object], message: str) -> None:
    with refused("TQ422", message):
        sql.enqueue(**{"queue": "q", "task": "t", **arguments})
    assert sql.list_jobs() == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"priority": 32767},
        {"priority": -32768},
        {"delay": timedelta(days=366)},
        {"scheduled_at": "1970-01-01 00:00+00"},
        {"max_attempts": 1},
        {"max_attempts": 100_000},
        {"backoff": timedelta(0), "backoff_max": timedelta(0)},
        {"backoff": timedelta(days=366), "backoff_max": timedelta(days=366)},
        {"lease": timedelta(milliseconds=100)},
        {"lease": timedelta(days=1)},
        {"ttl": timedelta(microseconds=1)},
        {"ttl": timedelta(days=366)},
    ],
)
def test_takes_what_is_just_in_bounds(sql: Contract, clock: Clock, arguments: dict[str, object]) -> None:
    job = sql.job(sql.new_job(**arguments))

    assert job["status"] == "queued"


def test_makes_two_jobs_of_two_calls(sql: Contract) -> None:
    assert sql.new_job() < sql.new_job()


# -- unique keys ------------------------------------------------------------------------------------------------


def test_finds_the_holder_of_a_unique_key_and_leaves_it_as_it_is(sql: Contract) -> None:
    holder = sql.new_job(unique_key="k", payload={"n": 1})
    before = sql.job(holder)

    [again] = sql.enqueue(queue="q", task="t", unique_key="k", payload={"n": 2}, priority=9)

    assert again == {"status": "existed", "job_id": holder}
    assert sql.job(holder) == before
    assert len(sql.list_jobs()) == 1


def test_a_unique_key_counts_within_its_queue(sql: Contract) -> None:
    assert sql.new_job(queue="a", unique_key="k") != sql.new_job(queue="b", unique_key="k")


def test_a_unique_key_counts_while_its_job_runs_and_not_after_its_end(sql: Contract) -> None:
    claimed = sql.new_attempt(unique_key="k")
    [during] = sql.enqueue(queue="q", task="t", unique_key="k")
    sql.complete(job_id=claimed["job_id"], attempt_id=claimed["attempt_id"])
    [after] = sql.enqueue(queue="q", task="t", unique_key="k")

    assert during == {"status": "existed", "job_id": claimed["job_id"]}
    assert after["status"] == "created"


def test_a_unique_key_counts_between_two_attempts(sql: Contract) -> None:
    claimed = sql.new_attempt(unique_key="k")
    sql.fail(job_id=claimed["job_id"], attempt_id=claimed["attempt_id"], error="boom")

    assert sql.enqueue(queue="q", task="t", unique_key="k") == [
        {"status": "existed", "job_id": claimed["job_id"]}
    ]


@pytest.mark.parametrize("end", ["cancel", "dead", "poison", "ttl"])
def test_every_end_gives_the_unique_key_back(sql: Contract, end: str) -> None:
    if end == "cancel":
        sql.cancel_job(job_id=sql.new_job(unique_key="k"))
    elif end == "ttl":
        job_id = sql.new_job(unique_key="k", ttl=HOUR)
        sql.run("update taskq.ready set expires_at = taskq.clock() where id = %s", job_id)
        sql.expire_ttl()
    else:
        claimed = sql.new_attempt(unique_key="k", max_attempts=1)
        if end == "dead":
            sql.fail(job_id=claimed["job_id"], attempt_id=claimed["attempt_id"], error="boom")
        else:
            sql.run_out(claimed["job_id"])
            sql.take_back()

    assert sql.enqueue(queue="q", task="t", unique_key="k")[0]["status"] == "created"


def test_a_rollback_takes_the_job_and_its_unique_key_back(sql: Contract) -> None:
    with sql.conn.transaction(force_rollback=True):
        sql.new_job(unique_key="k")

    assert sql.list_jobs() == []
    assert sql.enqueue(queue="q", task="t", unique_key="k")[0]["status"] == "created"


def test_waits_for_a_transaction_that_is_inserting_the_unique_key(
    sql: Contract, other: Contract, wait_until_blocked
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with sql.conn.transaction(force_rollback=True):
            sql.new_job(unique_key="k")
            second = pool.submit(lambda: other.enqueue(queue="q", task="t", unique_key="k"))
            wait_until_blocked(other.conn)
        assert second.result()[0]["status"] == "created"


def test_who_met_existed_and_stays_open_blocks_nobody(sql: Contract, other: Contract) -> None:
    claimed = sql.new_attempt(unique_key="k")
    with sql.conn.transaction():
        sql.enqueue(queue="q", task="t", unique_key="k")
        [settled] = other.complete(job_id=claimed["job_id"], attempt_id=claimed["attempt_id"])

    assert settled["result"] == "ok"


def test_a_repeatable_read_caller_that_cannot_see_the_holder_gets_40001(
    sql: Contract, other: Contract
) -> None:
    sql.run("begin isolation level repeatable read")
    sql.value("select count(*) from pg_class")
    other.new_job(unique_key="k")

    with refused("40001"):
        sql.enqueue(queue="q", task="t", unique_key="k")
    sql.run("rollback")


def test_says_tq500_when_the_key_never_stays_in_one_hand(sql: Contract) -> None:
    """A trigger plays the transactions that free the key between every two looks."""
    sql.run(
        "create function pg_temp.vanish() returns trigger language plpgsql as $$ begin return null; end $$"
    )
    sql.run(
        "create trigger vanish before insert on taskq.unique_keys for each row execute function pg_temp.vanish()"
    )
    try:
        with refused("TQ500", 'unique key "k" of queue "q" changed hands', hint="Call again"):
            sql.enqueue(queue="q", task="t", unique_key="k")
    finally:
        sql.run("drop trigger vanish on taskq.unique_keys")


# -- strict queues ----------------------------------------------------------------------------------------------


def test_refuses_an_unknown_queue_where_queues_are_strict(sql: Contract) -> None:
    sql.set_strict_queues(strict=True)
    sql.set_queue(queue="known")

    assert sql.new_job(queue="known")
    with refused("TQ001", 'no queue "unknown"', hint="set_queue"):
        sql.enqueue(queue="unknown", task="t")


# -- notifications ----------------------------------------------------------------------------------------------


def test_notifies_the_queue(sql: Contract, heard) -> None:
    sql.new_job(queue="mail")
    assert heard() == ["mail"]


def test_notifies_once_per_queue_and_transaction(sql: Contract, heard) -> None:
    with sql.conn.transaction():
        for queue in ("a", "b", "a"):
            sql.new_job(queue=queue)

    assert sorted(heard()) == ["a", "b"]


def test_does_not_notify_for_a_duplicate(sql: Contract, heard) -> None:
    sql.new_job(unique_key="k")
    heard()
    sql.enqueue(queue="q", task="t", unique_key="k")

    assert heard() == []


@pytest.mark.parametrize(
    ("sleeper_queues", "wakes_in", "delay", "expected"),
    [
        (None, None, 0, []),  # nobody sleeps
        (["q"], 5, 0, ["q"]),
        (["other", "q"], 5, 0, ["q"]),
        (["other"], 5, 0, []),
        (["q"], 5, 4, ["q"]),  # due before the sleeper wakes by itself
        (["q"], 5, 6, []),  # due after
        (["q"], -1, 0, []),  # should have woken already
    ],
)
def test_skips_the_notification_when_no_sleeper_would_wake_too_late(
    sql: Contract, clock: Clock, heard, sleeper_queues, wakes_in, delay, expected
) -> None:
    if sleeper_queues:
        wakes_at = clock.now + timedelta(seconds=wakes_in)
        sql.sleep_until(worker_id="w", queues=sleeper_queues, wakes_at=wakes_at)
    sql.new_job(delay=timedelta(seconds=delay), skip_wake=True)

    assert heard() == expected


def test_notifies_with_the_longest_queue_name(sql: Contract, heard) -> None:
    """B27: the payload is the queue's name alone, far below the 8,000 bytes of a notification."""
    sql.new_job(queue="é" * 60, payload={"x": "y" * 60_000})
    assert heard() == ["é" * 60]
