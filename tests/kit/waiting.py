"""Waiting for a state that another session or thread brings about; never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

#: Seconds; far beyond what anything waited for takes, since a loaded machine may not fail a test.
PATIENCE = 30.0


def eventually(condition: Callable[[], object], what: str, *, timeout: float = PATIENCE) -> None:
    """Return as soon as *condition* is true; fail with *what* did not come to be."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"after {timeout:g} s still not: {what}"
        time.sleep(0.005)


def wait_until_blocked(watcher: psycopg.Connection[tuple[object, ...]], pid: int) -> None:
    """Return as soon as the session *pid* waits for a lock that another session holds."""

    def blocked() -> bool:
        row = watcher.execute(
            "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s and state = 'active'",
            (pid,),
        ).fetchone()
        return row is not None and bool(row[0])

    eventually(blocked, f"session {pid} waits for a lock")
