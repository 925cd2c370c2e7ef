"""Settings and rights of the role, which must change no result."""

# Scenarios B37, B52, B77.

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from kit.roles import Role
from taskq_sync import SchemaError, TaskQ
from taskq_sync.model import Verdict

Connection = psycopg.Connection[tuple[Any, ...]]
NOON = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=timezone.utc)

SETTINGS = {
    "default_transaction_isolation": "serializable",
    "timezone": "Asia/Kolkata",
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "default_transaction_deferrable": "on",
    "client_encoding": "LATIN1",
}


@pytest.fixture(params=["direct", "pooled"])
def odd_tq(
    request: pytest.FixtureRequest, make_role: Callable[[], Role], conn: Connection
) -> Iterator[TaskQ]:
    """A client of a role with odd settings and no right but those of the contract."""
    role = make_role()
    for name, value in SETTINGS.items():
        conn.execute(f"alter role {role.name} set {name} = '{value}'")
    conn.execute(f"alter role {role.name} set search_path = ''")
    grant(conn, role)
    with TaskQ(role.dsn, pooled=request.param == "pooled") as made:
        yield made


def grant(conn: Connection, role: Role) -> None:
    conn.execute(f"grant usage on schema taskq to {role.name}")
    conn.execute(f"grant execute on all functions in schema taskq to {role.name}")


def test_a_job_goes_its_whole_way(odd_tq: TaskQ) -> None:
    tq = odd_tq

    @tq.task(queue="mail", name="note")
    def note(text: str) -> None: ...

    sent = note.using(
        scheduled_at=NOON, backoff=90061.5, lease=timedelta(hours=3), ttl=timedelta(days=366), unique_key="é"
    ).enqueue("é🐘")
    [in_bulk] = tq.enqueue_many([note.using(scheduled_at=NOON, backoff=90061.5).job("é🐘")])

    job = tq.get(sent)
    assert job.scheduled_at == NOON
    assert job.payload == {"text": "é🐘"}
    assert (job.backoff, job.lease, job.unique_key) == (timedelta(seconds=90061.5), timedelta(hours=3), "é")
    assert (tq.get(in_bulk).scheduled_at, tq.get(in_bulk).backoff) == (job.scheduled_at, job.backoff)
    with tq.database.connection() as session:
        [claimed] = tq.jobs.claim(session, ["mail"], "w", 1)
        assert claimed.job_id == sent.job_id
        assert claimed.lease == timedelta(hours=3)
        assert claimed.scheduled_at == NOON
        [hint] = tq.jobs.poll_hint(session, ["mail"])
        assert hint.state == "ready"
        tq.jobs.sleep_until(session, "w", ["mail"], 0.25)
        [beat] = tq.jobs.heartbeat(
            session, "w", [(claimed.job_id, claimed.attempt_id)], progress={claimed.job_id: "1e22"}
        )
        assert (beat.state, beat.progress_stored) == ("ok", True)
        [settled] = tq.jobs.settle(
            session, "w", [Verdict.snooze(claimed.job_id, claimed.attempt_id, delay=timedelta(seconds=90))]
        )
        assert settled.scheduled_at is not None
        assert beat.lease_expires_at is not None
        before = settled.scheduled_at - timedelta(seconds=90)
        assert timedelta(0) <= before - (beat.lease_expires_at - claimed.lease) < timedelta(seconds=30)


def test_the_next_due_time_is_measured_by_the_database(odd_tq: TaskQ) -> None:
    @odd_tq.task(queue="later", name="note")
    def note(text: str) -> None: ...

    note.using(delay=3600).enqueue("x")

    with odd_tq.database.connection() as session:
        [hint] = odd_tq.jobs.poll_hint(session, ["later"])
    assert hint.due_in is not None
    assert timedelta(minutes=59) < hint.due_in <= timedelta(hours=1)


def test_a_role_without_its_functions_is_told_so(make_role: Callable[[], Role], conn: Connection) -> None:
    with TaskQ(make_role().dsn) as tq, pytest.raises(SchemaError, match="grant the role USAGE on it"):
        tq.get(1)
