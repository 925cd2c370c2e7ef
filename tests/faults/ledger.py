"""What really happened: a table of its own, in another server than the queue's, which no scenario touches.

Handlers write each start and each end, with the fence, over a connection that is not the queue's. So a scenario may
take the queue's server away and still be told the truth.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from attrs import frozen

from taskq_sync import JobContext

#: Where the workers find the database of the ledger.
VARIABLE = "FAULTS_LEDGER"

_TABLE = """
create table ledger (
  id bigint generated always as identity,
  job_id bigint not null,
  fence bigint not null,
  attempt int not null,
  task text not null,
  pid int not null,
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  how text
)
"""

_START = "insert into ledger (job_id, fence, attempt, task, pid) values (%s, %s, %s, %s, %s) returning id"
_END = "update ledger set ended_at = clock_timestamp(), how = %s where id = %s"
_READ = "select job_id, fence, attempt, task, pid, started_at, ended_at, how from ledger order by id"


@frozen
class Start:
    """One call of a handler; *how* is None while it runs and for ever if its process was killed."""

    job_id: int
    fence: int
    attempt: int
    task: str
    pid: int
    started_at: Any
    ended_at: Any
    how: str | None

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return float((self.ended_at - self.started_at).total_seconds())


class Ledger:
    """The table, from the side of the tests."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._conn.execute(_TABLE)

    def close(self) -> None:
        """Close the connection."""
        self._conn.close()

    def starts(self, *job_ids: int) -> list[Start]:
        """Return the calls so far, oldest first; of all jobs, or of these."""
        rows = self._conn.execute(_READ).fetchall()
        found = [Start(*row) for row in rows]
        return [each for each in found if not job_ids or each.job_id in job_ids]


class _Writer:
    """The connection of a worker process to the ledger, made when it is needed and again when it is broken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._conn: psycopg.Connection[tuple[int]] | None = None

    def write(self, statement: str, *parameters: object) -> int | None:
        with self._lock:
            if self._conn is None or self._conn.closed:
                if self._conn is None:
                    atexit.register(self.close)
                self._conn = psycopg.connect(os.environ[VARIABLE], autocommit=True)
            try:
                cursor = self._conn.execute(statement.encode(), parameters)
                row = cursor.fetchone() if cursor.description is not None else None
                return None if row is None else row[0]
            except BaseException:  # a handler may be interrupted here too, and leave an answer on the way
                self._conn.close()
                raise

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()


_writer = _Writer()


@contextmanager
def recorded(ctx: JobContext) -> Iterator[None]:
    """Write that the handler of *ctx* starts, and how it ends."""
    job = ctx.job
    entry = _writer.write(_START, job.job_id, ctx.fence, ctx.attempt, job.task, os.getpid())
    how = "killed"
    try:
        yield
        how = "returned"
    except BaseException as error:
        how = type(error).__name__
        raise
    finally:
        try:
            _writer.write(_END, how, entry)
        except BaseException as error:
            _writer.write(_END, type(error).__name__, entry)
            raise
