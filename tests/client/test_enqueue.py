"""Jobs through the client, committed by it."""

# Scenarios B20, B23, B52, B59 to B62, B75, B86.

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import attrs
import psycopg
import pytest
from attrs import frozen

from taskq_sync import (
    InvalidInput,
    Job,
    JobContext,
    JobNotFound,
    JobOptions,
    PayloadError,
    SchemaError,
    TaskQ,
)
from taskq_sync.db.schema import Schema
from taskq_sync.db.session import BoundedConnection

Connection = psycopg.Connection[tuple[Any, ...]]


@frozen
class Order:
    id: int
    total: Decimal


def declare(tq: TaskQ) -> Any:
    @tq.task(queue="mail", name="mail.welcome", max_attempts=8, backoff=10, headers={"from": "task"})
    def welcome(ctx: JobContext, user_id: int, at: datetime | None = None) -> None: ...

    return welcome


def test_stores_the_job_as_the_task_and_the_call_say(either_tq: TaskQ) -> None:
    welcome = declare(either_tq)

    result = welcome.using(
        priority=3, unique_key="u:7", concurrency_key="user:7", lease=30, ttl=timedelta(hours=1)
    ).enqueue(user_id=7)

    assert result.created
    job = either_tq.get(result)
    assert job == either_tq.get(result.job_id)
    assert (job.queue, job.task, job.status) == ("mail", "mail.welcome", "queued")
    assert job.payload == {"user_id": 7}
    assert job.headers == {"from": "task"}
    assert (job.priority, job.unique_key, job.concurrency_key) == (3, "u:7", "user:7")
    assert (job.max_attempts, job.backoff) == (8, timedelta(seconds=10))
    assert (job.lease, job.ttl) == (timedelta(seconds=30), timedelta(hours=1))
    assert not job.ended


def test_leaves_what_nobody_said_to_the_queue(tq: TaskQ) -> None:
    @tq.task(queue="mail")
    def bare() -> None: ...

    with tq.database.connection() as session:
        tq.queues.set_queue(session, "mail", actor="test", max_attempts=3, lease=timedelta(seconds=7))

    job = tq.get(bare.enqueue())

    assert (job.max_attempts, job.lease) == (3, timedelta(seconds=7))
    assert job.priority == 0
    assert job.payload == {}


def test_a_delay_counts_from_the_statement_and_a_time_is_taken_as_it_is(either_tq: TaskQ) -> None:
    welcome = declare(either_tq)
    at = datetime.now(timezone(timedelta(hours=5, minutes=30))) + timedelta(days=10)

    delayed = either_tq.get(welcome.using(delay=90.5).enqueue(user_id=7))
    planned = either_tq.get(welcome.using(scheduled_at=at).enqueue(user_id=7))

    assert delayed.scheduled_at is not None
    assert delayed.scheduled_at - delayed.created_at == timedelta(seconds=90.5)
    assert planned.scheduled_at == at


def test_every_option_reaches_the_database_alike_alone_and_in_bulk(tq: TaskQ, conn: Connection) -> None:
    welcome = declare(tq)
    options: dict[str, Any] = {
        "priority": -5, "scheduled_at": datetime(2026, 2, 3, tzinfo=timezone.utc), "unique_key": "é'\"\\",
        "concurrency_key": "%s{0}", "max_attempts": 2, "backoff": 0.000001, "backoff_max": timedelta(days=366),
        "lease": 0.1, "ttl": timedelta(days=366), "headers": {"n": [1e22, 2**70, "\u0001é"]},
        "unique_mode": "keep", "unique_scope": "waiting", "unique_for": 0.000001, "ordered": True,
    }  # fmt: skip
    one = welcome.using(**options).enqueue(user_id=7)
    assert tq.get(one).unique_key == "é'\"\\"
    key = conn.execute("select waiting, expires_at from taskq.unique_keys").fetchone()
    assert key == (True, tq.get(one).created_at + timedelta(microseconds=1))
    with tq.database.connection() as session:
        tq.jobs.cancel(session, one.job_id, actor="test")

    [many] = tq.enqueue_many([welcome.using(**options).job(user_id=7)])

    assert many.created
    assert policy(tq.get(one)) == policy(tq.get(many))
    key = conn.execute("select waiting, expires_at from taskq.unique_keys").fetchone()
    assert key == (True, tq.get(many).created_at + timedelta(microseconds=1))
    assert {*options, "delay"} == {each.name for each in attrs.fields(JobOptions)}


def policy(job: Job) -> dict[str, object]:
    elsewhere = ("delay", "headers", "scheduled_at", "unique_mode", "unique_scope", "unique_for")
    names = [each.name for each in attrs.fields(JobOptions) if each.name not in elsewhere]
    return {name: getattr(job, name) for name in names} | {
        "headers": job.headers_json,
        "payload": job.payload_json,
        "expires_at": job.expires_at,
    }


def test_the_holder_of_a_unique_key_is_returned_unchanged(either_tq: TaskQ) -> None:
    welcome = declare(either_tq)
    first = welcome.using(unique_key="u").enqueue(user_id=7)

    second = welcome.using(unique_key="u", priority=9).enqueue(user_id=8)

    assert (second.status, second.job_id) == ("existed", first.job_id)
    assert either_tq.get(first).payload == {"user_id": 7}
    assert either_tq.get(first).priority == 0


def test_values_come_back_from_the_database_as_they_were(tq: TaskQ) -> None:
    @tq.task(name="keep")
    def keep(data: Any, order: Order, at: datetime) -> None: ...

    data = [1e22, 1.5e300, 5e-324, 2**70, -0.5, '\u0001é🐘\\"', {"a b": [None, True]}]
    order = Order(7, Decimal("0.10"))
    at = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=timezone.utc)

    job = tq.get(keep.enqueue(data=data, order=order, at=at))

    restored = tq.registry.get("keep").structure(dict(job.payload))
    assert restored == {"data": data, "order": order, "at": at}
    assert repr(restored["data"]) == repr(data)


def test_the_size_of_a_payload_is_measured_as_the_database_does(tq: TaskQ, conn: Connection) -> None:
    @tq.task
    def keep(data: Any) -> None: ...

    data = {"é\n": [1e22, 1.5e-7, True, None, {}, []], "z": "\x7f\x1f"}
    request = keep.job(data)

    row = conn.execute("select octet_length(%s::jsonb::text)", (request.payload_json,)).fetchone()

    assert row == (len(request.payload_json.encode()),)


def test_a_payload_at_the_cap_is_stored(tq: TaskQ) -> None:
    @tq.task
    def keep(data: str) -> None: ...

    fits = "x" * (65536 - len('{"data": ""}'))

    assert keep.enqueue(fits).created
    with pytest.raises(PayloadError, match="cap is 65536"):
        keep.enqueue(fits + "x")


def test_a_bad_payload_is_refused_before_anything_is_sent(make_tq: Callable[..., TaskQ]) -> None:
    nowhere = make_tq("host=/nonexistent")

    with pytest.raises(PayloadError):
        declare(nowhere).enqueue(user_id="7\x00")


def test_bad_headers_are_refused_before_anything_is_sent(make_tq: Callable[..., TaskQ]) -> None:
    welcome = declare(make_tq("host=/nonexistent"))

    with pytest.raises(PayloadError, match=r"headers cannot be stored .* at \$\.n"):
        welcome.using(headers={"n": float("nan")})


def test_what_only_the_database_can_refuse_is_invalid_input(tq: TaskQ) -> None:
    welcome = declare(tq)

    with pytest.raises(InvalidInput, match="headers") as caught:
        welcome.using(headers={"x": "y" * 9000}).enqueue(user_id=7)

    assert caught.value.sqlstate == "TQ422"


def test_an_unknown_job_is_not_found(either_tq: TaskQ) -> None:
    with pytest.raises(JobNotFound, match="999999"):
        either_tq.get(999999)


def test_a_missing_schema_says_what_to_do(make_tq: Callable[..., TaskQ]) -> None:
    for client in (make_tq(schema="nothing_here"), make_tq(schema="nothing_here", pooled=True)):
        with pytest.raises(SchemaError, match="taskq-sync migrate"):
            declare(client).enqueue(user_id=7)


@pytest.mark.own_database
def test_another_schema_is_another_world(dsn: str, make_tq: Callable[..., TaskQ]) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        Schema("My-Queue.x").migrate(conn)
    usual, other = make_tq(), make_tq(schema="My-Queue.x")
    declare(usual).enqueue(user_id=1)

    result = declare(other).using(unique_key="u").enqueue(user_id=2)

    assert other.get(result).payload == {"user_id": 2}
    with other.database.connection() as session:
        assert [job.payload for job in other.jobs.list(session)] == [{"user_id": 2}]
        [claimed] = other.jobs.claim(session, ["mail"], "w", 10)
        assert claimed.payload == {"user_id": 2}
        other.jobs.sleep_until(session, "w", ["mail"], 5)


def test_ids_beyond_32_and_53_bits_are_exact(tq: TaskQ, conn: Connection) -> None:
    welcome = declare(tq)
    [(name,)] = conn.execute("select pg_get_serial_sequence('taskq.jobs', 'id')").fetchall()
    for start in (2**31 - 1, 2**53):
        conn.execute("select setval(%s, %s)", (name, start))

        first, second = welcome.enqueue(user_id=1), welcome.enqueue(user_id=2)

        assert (first.job_id, second.job_id) == (start + 1, start + 2)
        assert tq.get(second).payload == {"user_id": 2}
    with tq.database.connection() as session:
        claimed = tq.jobs.claim(session, ["mail"], "w", 10)
        beats = tq.jobs.heartbeat(session, "w", [(job.job_id, job.attempt_id) for job in claimed])
    assert [beat.state for beat in beats] == ["ok"] * 4


def test_leaves_no_session_in_a_transaction(either_tq: TaskQ, conn: Connection) -> None:
    declare(either_tq).enqueue(user_id=7)

    rows = conn.execute(
        "select application_name, state from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    ).fetchall()

    assert ("taskq-client", "idle") in rows
    assert not [state for _, state in rows if "transaction" in (state or "")]


def test_payloads_of_psql_and_of_the_client_are_one(tq: TaskQ, conn: Connection) -> None:
    @tq.task(name="keep")
    def keep(order: Order) -> None: ...

    conn.execute(
        "select taskq.enqueue(p_queue => 'default', p_task => 'keep', p_payload => %s::jsonb)",
        (json.dumps({"id": 7, "total": "1.10"}),),
    )
    with tq.database.connection() as session:
        [claimed] = tq.jobs.claim(session, ["default"], "w", 1)

    assert keep.spec.structure(dict(claimed.payload)) == {"order": Order(7, Decimal("1.10"))}


def test_takes_one_exchange_with_the_server(tq: TaskQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the client is connected and its statement prepared."""
    welcome = declare(tq)
    waits = []
    wait = BoundedConnection.wait

    def counted(self: BoundedConnection, *arguments: Any) -> Any:
        waits.append(self)
        return wait(self, *arguments)

    for _ in range(10):
        welcome.enqueue(user_id=7)
    monkeypatch.setattr(BoundedConnection, "wait", counted)
    welcome.enqueue(user_id=7)
    welcome.enqueue(user_id=8)

    assert len(waits) == 2
