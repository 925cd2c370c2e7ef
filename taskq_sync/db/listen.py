"""A connection that listens for the names of queues in which something has become due.

A notification only saves time: whoever misses one finds the job at the next poll.
"""

from __future__ import annotations

import psycopg

from taskq_sync.db.faults import translate
from taskq_sync.db.session import Session
from taskq_sync.db.statements import Statements


def call_of(worker_id: str) -> str:
    """Return what `stop_worker` notifies: it calls one worker to announce itself, and is the name of no queue."""
    return f"\t{worker_id}"


class Listener:
    """One session that listens, outside any transaction. Used by one thread."""

    def __init__(self, session: Session, statements: Statements) -> None:
        """Start to listen on *session*, which belongs to the listener from now on."""
        self.session = session
        try:
            session.connection.execute(statements.listen.encode())
        except psycopg.Error as error:
            session.close()
            raise translate(error, "listen") from error

    def wait(self, timeout: float) -> frozenset[str]:
        """Return the queues named since the last call, and `call_of` workers; empty when *timeout* seconds
        passed without any.

        Raises `DatabaseUnavailable` when the link is broken; then connect anew, and poll, for what was said in
        between is gone.
        """
        connection = self.session.connection
        try:
            return frozenset(notice.payload for notice in connection.notifies(timeout=timeout, stop_after=1))
        except psycopg.Error as error:
            self.close()
            raise translate(error, "listen") from error

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self.session.close()
