"""A connection that does nothing but hold the lock of a name, as long as it stands."""

from __future__ import annotations

import psycopg

from taskq_sync.db.faults import translate
from taskq_sync.db.session import Session


class HeldName:
    """One direct session that has taken such a lock. Used by one thread at a time."""

    def __init__(self, session: Session) -> None:
        """Take the *session*, which belongs to the lock from now on. Raises `DatabaseUnavailable`."""
        self._session = session
        try:
            # It is idle by its nature: no setting of the role may end it for that.
            session.connection.execute(b"set idle_session_timeout = 0")
        except psycopg.Error as error:
            session.close()
            raise translate(error, "hold a lock") from error

    def watch(self, timeout: float) -> None:
        """Wait for *timeout* seconds. Raises `DatabaseUnavailable` when the link is broken: the lock is gone."""
        try:
            for _ in self._session.connection.notifies(timeout=timeout, stop_after=1):
                pass
        except psycopg.Error as error:
            self.close()
            raise translate(error, "hold a lock") from error

    def close(self) -> None:
        """Give the lock back; may be called twice."""
        self._session.close()
