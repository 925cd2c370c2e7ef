"""A schema that asks for a newer client is not enqueued into by an older one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kit.proxy import Proxy
from kit.roles import Role
from taskq_sync import DatabaseUnavailable, OutcomeUnknown, SchemaError, TaskQ

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def newer(conn: Connection) -> Iterator[None]:
    """Let the schema ask for a client that does not exist yet."""
    [before] = conn.execute("select min_client from taskq.settings").fetchone() or ()
    conn.execute("update taskq.settings set min_client = '99.1'")
    yield
    conn.execute("update taskq.settings set min_client = %s", (before,))


def declare(tq: TaskQ) -> Any:
    @tq.task(queue="mail", name="mail.welcome")
    def welcome(user_id: int) -> None: ...

    return welcome


def count(conn: Connection) -> int:
    [jobs] = conn.execute("select count(*) from taskq.jobs").fetchone() or ()
    return int(jobs)


@pytest.mark.usefixtures("newer")
def test_a_client_that_is_too_old_enqueues_nothing(either_tq: TaskQ, conn: Connection) -> None:
    welcome = declare(either_tq)

    for call in (
        lambda: welcome.enqueue(user_id=1),
        lambda: either_tq.enqueue_many([welcome.job(user_id=1)]),
    ):
        with pytest.raises(SchemaError, match=r"schema \S+ in .* needs taskq-sync 99\.1 or newer, this is"):
            call()

    assert count(conn) == 0


def test_the_schema_is_asked_once(tq: TaskQ, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = tq.jobs.schema_version
    monkeypatch.setattr(tq.jobs, "schema_version", lambda ex: asked.append(ex) or ask(ex))
    welcome = declare(tq)

    welcome.enqueue(user_id=1)
    tq.get(welcome.enqueue(user_id=2))

    assert len(asked) == 1


@pytest.mark.usefixtures("newer")
def test_a_role_that_may_not_ask_is_not_refused(make_role: Callable[[], Role], conn: Connection) -> None:
    role = make_role()
    conn.execute(f"grant usage on schema taskq to {role.name}")
    conn.execute(f"grant execute on function taskq.enqueue to {role.name}")

    with TaskQ(role.dsn) as tq:
        assert declare(tq).enqueue(user_id=1).status == "created"


def test_a_link_that_breaks_meanwhile_leaves_nothing_unknown(dsn: str, conn: Connection) -> None:
    proxy = Proxy(dsn)
    try:
        proxy.on_reply = lambda data: None if b"min_client" in data else data
        with TaskQ(proxy.dsn, timeout=0.5) as tq, pytest.raises(DatabaseUnavailable) as caught:
            declare(tq).enqueue(user_id=1)
    finally:
        proxy.close()

    assert not isinstance(caught.value, OutcomeUnknown)
    assert count(conn) == 0
