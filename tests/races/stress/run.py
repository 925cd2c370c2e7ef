"""One stress run: sessions that call at random, a watcher that samples, a verdict over all answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import psycopg
from attrs import frozen

from taskq_sync.db.statements import Statements

from .caller import CHANGING, FIXED_LIMITS, QUEUES, Mix, Toggles
from .ledger import Deed, Ledger, Limit
from .session import Session
from .verdict import Verdict, read_final
from .watch import Watch

#: Seconds that the jobs left at the end may take to run dry; their longest delay is 0.3 s.
_DRAIN = 60.0

#: The first of these ends the run, as any error does; that there was none stands among the figures.
_MUST_NOT_BE = {"40P01": "deadlocks (40P01)", "40001": "serialization errors (40001)"}

_statements = Statements()


@frozen(kw_only=True)
class Report:
    """The seed, the figures and the findings of a run; without findings it has passed."""

    seed: int
    figures: Mapping[str, int]
    findings: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        lines += [f"{amount:>9} {name}" for name, amount in sorted(self.figures.items())]
        lines += [f"FOUND: {each}" for each in self.findings[:20]]
        if len(self.findings) > 20:
            lines.append(f"and {len(self.findings) - 20} more findings")
        return "\n".join(lines)


class Stress:
    """One run, bounded by *seconds* and by the *calls* of a session."""

    def __init__(self, dsn: str, *, seconds: float, sessions: int, seed: int, calls: int, mix: Mix) -> None:
        self._dsn = dsn
        self._seconds = seconds
        self._sessions = sessions
        self._seed = seed
        self._calls = calls
        self._mix = mix
        self._ledger = Ledger()
        self._ledger.figures.update(dict.fromkeys(_MUST_NOT_BE.values(), 0))
        self._toggles = Toggles.make()
        self._stop = threading.Event()
        self._findings: list[str] = []

    def run(self) -> Report:
        """Run it and report; raises `SystemExit` for a database that is not empty."""
        with self._connect("stress-owner") as conn, self._connect("stress-watch") as watcher:
            self._prepare(conn)
            watch = Watch(watcher, FIXED_LIMITS)
            self._work(watch)
            watch.look()  # twice more, now that nothing moves: a key that is stuck stays so
            watch.look()
            self._findings += watch.findings
            self._findings += Verdict(self._ledger, read_final(conn)).findings()
            if not self._findings:
                self._findings += drain(conn)
            conn.execute("drop schema stress cascade")
        figures = {**self._ledger.figures, **watch.figures}
        return Report(seed=self._seed, figures=figures, findings=tuple(self._findings))

    def _connect(self, name: str) -> psycopg.Connection[Any]:
        # a statement that takes this long is a finding
        options = "-c statement_timeout=30s"
        return psycopg.connect(self._dsn, autocommit=True, application_name=name, options=options)

    def _prepare(self, conn: psycopg.Connection[Any]) -> None:
        if conn.execute("select from taskq.jobs limit 1").fetchall():
            raise SystemExit("the database has jobs in it; a stress run needs one of its own")
        conn.execute("drop schema if exists stress cascade")
        conn.execute("create schema stress")
        conn.execute("create table stress.work (attempt_id bigint not null)")
        for key, limit in FIXED_LIMITS.items():
            _set_limit(conn, key, limit)
            deed = Deed(decided=0.0, known=0.0)
            self._ledger.write([Limit(asked=0.0, answered=0.0, deed=deed, key=key, max_running=limit)])

    def _work(self, watch: Watch) -> None:
        threads = [
            threading.Thread(target=self._session, args=[number], name=f"stress-{number}")
            for number in range(self._sessions)
        ]
        watching = threading.Thread(target=self._watch, args=[watch], name="stress-watch")
        deadline = time.monotonic() + self._seconds
        for thread in (watching, *threads):
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._stop.set()
        for thread in (watching, *threads):
            thread.join()

    def _watch(self, watch: Watch) -> None:
        try:
            watch.run(self._stop)
        except Exception as error:
            self._findings.append(f"the watch ended: {error!r}")
        finally:
            self._stop.set()

    def _session(self, number: int) -> None:
        with self._connect(f"stress-{number}") as conn:
            session = Session(
                conn, self._ledger, self._toggles, self._stop, seed=f"{self._seed}:{number}", mix=self._mix
            )
            try:
                session.run(self._calls)
            except Exception as error:
                sqlstate = getattr(error, "sqlstate", None)
                if sqlstate in _MUST_NOT_BE:
                    self._ledger.count(_MUST_NOT_BE[sqlstate])
                self._findings.append(f"session {number} in {session.verb}: {sqlstate} {error!r}")
                self._stop.set()


def drain(conn: psycopg.Connection[Any]) -> list[str]:
    """Let every job that is left run to its end, and say which would not."""
    for queue in QUEUES:
        conn.execute(_statements.resume_queue.encode(), {"queue": queue, "actor": None, "reason": None})
    for key in (*FIXED_LIMITS, *CHANGING):
        _set_limit(conn, key, 1)
    deadline = time.monotonic() + _DRAIN
    while time.monotonic() < deadline:
        conn.execute("update taskq.running set lease_expires_at = taskq.clock()")
        conn.execute("select job_id from taskq.take_back()")
        conn.execute("select taskq.expire_ttl()")
        claimed = conn.execute(_COMPLETE_ALL.encode(), {"queues": list(QUEUES)}).fetchall()
        if not claimed and not conn.execute(_LIVE).fetchall():
            return []
        time.sleep(0.0 if claimed else 0.02)  # delayed jobs are due in a moment
    return [f"job {row[0]} will not end: {row}" for row in conn.execute(_LIVE).fetchall()]


def _set_limit(conn: psycopg.Connection[Any], key: str, limit: int) -> None:
    parameters = {"key": key, "max_running": limit, "actor": None, "reason": None}
    conn.execute(_statements.set_concurrency_limit.encode(), parameters)


_COMPLETE_ALL = """
select c.job_id, s.result
from taskq.claim(%(queues)s, 'drain', 1000) c cross join lateral taskq.complete(c.job_id, c.attempt_id) s
"""
_LIVE = """
select id, hold, concurrency_key, queue, scheduled_at from taskq.ready
union all
select id, 'running', concurrency_key, queue, scheduled_at from taskq.running
"""
