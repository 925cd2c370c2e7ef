"""The SQL functions as methods, for tests that speak to the schema through psycopg alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from kit import flavours

Connection = psycopg.Connection[Any]
Row = dict[str, Any]


class Contract:
    """The functions of the schema `taskq` through one connection, by named arguments without their `p_`.

    `sql.enqueue(queue="mail", task="t")` runs `select * from taskq.enqueue(p_queue => .., p_task => ..)` and
    returns a list of rows as dicts. A dict is sent as jsonb; any other JSON value goes as `Jsonb(value)`.
    """

    def __init__(self, conn: Connection) -> None:
        self.conn = conn

    def __getattr__(self, function: str) -> Callable[..., list[Row]]:
        if function.startswith("_"):
            raise AttributeError(function)
        return lambda **arguments: self._call(function, arguments).fetchall()

    def columns(self, function: str, **arguments: Any) -> list[str]:
        """Call *function* and return the names of its columns."""
        return [column.name for column in self._call(function, arguments).description or ()]

    def rows(self, query: str, *parameters: Any) -> list[Row]:
        """Run *query* and return its rows as dicts."""
        return self.conn.cursor(row_factory=dict_row).execute(query, parameters).fetchall()

    def value(self, query: str, *parameters: Any) -> Any:
        """Run *query* and return the one value of its one row."""
        [row] = self.conn.execute(query, parameters).fetchall()
        [value] = row
        return value

    def run(self, statement: str, *parameters: Any) -> int:
        """Run *statement* and return how many rows it touched."""
        return self.conn.execute(statement, parameters).rowcount

    def new_job(self, **arguments: Any) -> int:
        """Enqueue one job, of task `t` in queue `q` unless told otherwise, and return its id."""
        [row] = self.enqueue(**{"queue": "q", "task": "t", **arguments})
        assert row["status"] == "created"
        return int(row["job_id"])

    def take(self, queue: str = "q", *, worker: str = "w", **arguments: Any) -> Row:
        """Claim the one job that is due in *queue* and return its row."""
        [claimed] = self.claim(queues=[queue], worker_id=worker, **arguments)
        return claimed

    def new_attempt(self, **arguments: Any) -> Row:
        """Enqueue one job, claim it and return its row of the claim."""
        job_id = self.new_job(**arguments)
        claimed = self.take(arguments.get("queue", "q"))
        assert claimed["job_id"] == job_id
        return claimed

    def job(self, job_id: int) -> Row:
        """Return the job as `get_job` shows it."""
        [row] = self.get_job(job_id=job_id)
        return row

    def run_out(self, *job_ids: int) -> None:
        """Let the leases of running jobs end an hour ago."""
        moved = self.run(
            "update taskq.running set lease_expires_at = taskq.clock() - interval '1 hour' where id = any (%s)",
            list(job_ids),
        )
        assert moved == len(job_ids)

    def make_due(self, job_id: int) -> None:
        """Let a queued job be due now, whatever its delay."""
        assert self.run("update taskq.ready set scheduled_at = taskq.clock() where id = %s", job_id) == 1

    def _call(self, function: str, arguments: Row) -> psycopg.Cursor[Row]:
        named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
        values = {
            name: Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()
        }
        cursor = self.conn.cursor(row_factory=dict_row)
        return cursor.execute(f"select * from taskq.{function}({named})", values)


class Clock:
    """The clock of the schema, standing at `now` until it is moved."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self.now = datetime(2030, 1, 1, tzinfo=timezone.utc)
        self._stand()

    def forward(self, **duration: float) -> datetime:
        """Move the clock by a duration as `timedelta` takes it, backwards if negative."""
        return self.stand_at(self.now + timedelta(**duration))

    def stand_at(self, now: datetime) -> datetime:
        """Put the clock to an instant."""
        self.now = now
        self._stand()
        return now

    @property
    def statement(self) -> str:
        """What lets the clock stand at `now`, in every session of the database once it is committed."""
        return (
            "create or replace function taskq.clock() returns timestamptz language sql stable parallel safe "
            f"as $$ select timestamptz '{self.now.isoformat()}' $$"
        )

    def _stand(self) -> None:
        self._conn.execute(self.statement.encode())


def own_clocks(conn: Connection) -> None:
    """Give every session of the database a clock of its own, ahead by what its setting `tests.ahead` says."""
    conn.execute(
        "create or replace function taskq.clock() returns timestamptz language sql stable parallel safe as $$ "
        "select statement_timestamp() + coalesce(nullif(current_setting('tests.ahead', true), ''), '0')::interval $$"
    )


@contextmanager
def refused(
    sqlstate: str, message: str = "", *, detail: str | None = None, hint: str | None = None
) -> Iterator[None]:
    """Expect a database error with this SQLSTATE, whose message, DETAIL and HINT contain the texts.

    In a database of another kind the name of the schema is that one's, and spans of time have its style.
    """
    with pytest.raises(psycopg.Error) as caught:
        yield
    error = caught.value
    assert error.sqlstate == sqlstate, error
    assert flavours.says(error.diag.message_primary or "", message), error
    if detail is not None:
        assert detail in (error.diag.message_detail or "")
    if hint is not None:
        assert hint in (error.diag.message_hint or "")
