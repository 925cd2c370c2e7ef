"""A thread that looks at the queue's database all the time, for what may never be seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

#: Seconds beyond the lease in which an abandoned attempt must be taken back: the grace of one beat after a worker
#: has connected, one sweep, and time for a busy machine.
OVERDUE = 8.0

#: Seconds that a session of ours may sit in a transaction.
IDLE = 1.0

_EVERY = 0.1

_OVERDUE_QUERY = """
select id, attempt_id, extract(epoch from taskq.clock() - lease_expires_at)::float8
from taskq.running where lease_expires_at < taskq.clock()
"""

_OVER_LIMIT_QUERY = """
select r.concurrency_key, count(*), coalesce(max(l.max_running), 1)
from taskq.running r left join taskq.concurrency_limits l on l.key = r.concurrency_key
where r.concurrency_key is not null
group by 1 having count(*) > coalesce(max(l.max_running), 1)
"""

# A handler may sit in its own transaction for as long as it likes.
_IDLE_QUERY = """
select pid, application_name, query from pg_stat_activity
where state like 'idle in transaction%%' and application_name like 'taskq-%%'
  and application_name not like '%%-transaction' and clock_timestamp() - state_change > %s * interval '1 s'
"""


class Watch:
    """Looks ten times a second until it is ended; `findings` are sentences.

    `may_be_overdue` are jobs of which nobody can take an attempt back, because the scenario has locked them.
    *sweeping_since* returns the monotonic instant since when a worker has been there to take back, None when there is
    none. While the database does not answer nothing is found, and leases count anew from its return.
    """

    def __init__(self, dsn: str, sweeping_since: Callable[[], float | None]) -> None:
        self._dsn = dsn
        self._sweeping_since = sweeping_since
        self._back_since = time.monotonic()
        self._ending = threading.Event()
        self._conn: psycopg.Connection[Any] | None = None
        self.findings: set[str] = set()
        self.may_be_overdue: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="faults-watch")
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._look(self._connect())
            except psycopg.Error:
                self._close()
                self._back_since = time.monotonic()
            self._ending.wait(_EVERY)
        self._close()

    def _connect(self) -> psycopg.Connection[Any]:
        if self._conn is None:
            self._conn = psycopg.connect(self._dsn, autocommit=True, application_name="faults-watch")
        return self._conn

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _look(self, conn: psycopg.Connection[Any]) -> None:
        since = self._sweeping_since()
        if since is not None:
            age = time.monotonic() - max(since, self._back_since)
            for job_id, fence, overdue in conn.execute(_OVERDUE_QUERY).fetchall():
                if min(overdue, age) > OVERDUE and job_id not in self.may_be_overdue:
                    self.findings.add(f"nobody takes back attempt {fence} of job {job_id}")
        for key, running, limit in conn.execute(_OVER_LIMIT_QUERY).fetchall():
            self.findings.add(f"{running} jobs of key {key} run, {limit} may")
        for pid, name, query in conn.execute(_IDLE_QUERY, (IDLE,)).fetchall():
            self.findings.add(f"{name} (pid {pid}) is idle in a transaction: {query}")
