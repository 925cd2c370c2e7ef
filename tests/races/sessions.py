"""Sessions whose order is forced: one holds a lock, the other is seen waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from psycopg.types.json import Jsonb

from kit.contract import Connection, Contract, Row
from kit.waiting import eventually

#: What a worker may ask for, with the properties that the verb needs.
VERBS: dict[str, Row] = {
    "complete": {},
    "fail": {"retry_after": 0},
    "snooze": {"delay": 0.1},
    "release": {},
    "cancel": {},
}


def settlement(*attempts: Row, verb: str, **properties: object) -> Row:
    """Return the arguments of `settle` that end *attempts*, as claimed, by *verb*."""
    elements = [
        {
            "job_id": each["job_id"],
            "attempt_id": each["attempt_id"],
            "verb": verb,
            **VERBS[verb],
            **properties,
        }
        for each in attempts
    ]
    return {"worker_id": "w", "settlements": Jsonb(elements)}


def beat(*attempts: Row) -> Row:
    """Return the arguments of a `heartbeat` for *attempts*, as claimed."""
    return {
        "worker_id": "w",
        "job_ids": [each["job_id"] for each in attempts],
        "attempt_ids": [each["attempt_id"] for each in attempts],
    }


def ids(rows: list[Row]) -> list[int]:
    """Return the jobs of *rows*."""
    return [row["job_id"] for row in rows]


class Session(Contract):
    """The functions of the schema through one session, with calls that may be left waiting for a lock."""

    def __init__(self, conn: Connection, watcher: Connection, threads: ThreadPoolExecutor) -> None:
        super().__init__(conn)
        self._watcher = watcher
        self._threads = threads
        self._ahead = ""

    @property
    def pid(self) -> int:
        return self.conn.info.backend_pid

    def waiting(self, function: str, *, behind: Session | None = None, **arguments: Any) -> Future[list[Row]]:
        """Call *function* in a thread and return as soon as the session waits for a lock, of *behind* if given.

        Fails at once if the call ends without having waited.
        """
        answer, waits = self.begin(lambda: getattr(self, function)(**arguments), behind=behind)
        assert waits, f"{function} did not wait for a lock: {answer.result()}"
        return answer

    def begin(
        self, call: Callable[[], list[Row]], *, behind: Session | None = None
    ) -> tuple[Future[list[Row]], bool]:
        """Make *call* in a thread; return it when it has ended or waits for a lock, and whether it waits."""
        answer = self._threads.submit(call)
        waits = False

        def known() -> bool:
            nonlocal waits
            if wait([answer], timeout=0.002).done:
                return True
            waits = self._is_blocked(behind)
            return waits

        eventually(known, "the call ends, or waits for a lock")
        return answer, waits

    def _is_blocked(self, behind: Session | None) -> bool:
        row = self._watcher.execute(
            "select case when wait_event_type = 'Lock' then pg_blocking_pids(pid) end "
            "from pg_stat_activity where pid = %s",
            (self.pid,),
        ).fetchone()
        return row is not None and row[0] is not None and (behind is None or behind.pid in row[0])

    def blocked_by(self) -> list[int]:
        """Return the process ids of the sessions that this one waits for."""
        row = self._watcher.execute("select pg_blocking_pids(%s)", (self.pid,)).fetchone()
        assert row is not None
        return list(row[0])

    def settle_one(self, attempt: Row, verb: str) -> Row:
        """Settle one attempt by *verb* and return its answer."""
        [answer] = self.settle(**settlement(attempt, verb=verb))
        return answer

    @contextmanager
    def transaction(self, *, rolls_back: bool = False) -> Iterator[None]:
        """Keep a transaction open within the block; it commits at its end, or rolls back."""
        with self.conn.transaction(force_rollback=rolls_back):
            yield

    @contextmanager
    def table_locked(self, table: str, mode: str) -> Iterator[None]:
        """Stop every other session, within the block, before its next statement that needs a stronger lock."""
        with self.transaction():
            self.run(f"lock table taskq.{table} in {mode} mode")
            yield

    def row_locked_by_hand(self, table: str, job_id: int) -> None:
        """Lock a row as somebody at a prompt would, until the transaction ends."""
        assert self.rows(f"select id from taskq.{table} where id = %s for update", job_id) == [{"id": job_id}]

    def ahead(self, **interval: int) -> Session:
        """Let the clock of this session, and no other, go ahead; needs the fixture `clocks`."""
        [(unit, amount)] = interval.items()
        self.ahead_by(f"{amount} {unit}")
        return self

    def ahead_by(self, interval: str) -> None:
        """Let the clock of this session go ahead by *interval*, which may be empty; outside a transaction."""
        if interval != self._ahead:
            self.run("select set_config('tests.ahead', %s, false)", interval)
            self._ahead = interval


def claims(session: Session, *queues: str, limit: int = 10) -> list[int]:
    """Claim from *queues*, by default `q`, and return the jobs."""
    return ids(session.claim(queues=list(queues or ["q"]), worker_id="w", limit=limit))
