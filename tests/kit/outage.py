"""A database that is away for a while, for everybody but the tests themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[object, ...]]


class Outages:
    """Outages of the one database that *conn* is connected to; *admin* is connected to another one."""

    def __init__(self, admin: Connection, conn: Connection) -> None:
        self._admin = admin
        self._conn = conn

    def cut(self, part: str = "") -> int:
        """End the sessions of the library whose name ends with *part*, and return how many there were."""
        ended = self._conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and application_name like %s",
            [f"taskq-%{part}"],
        )
        return ended.rowcount

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let no session of the library in, and end those that are."""
        self._accept(False)
        try:
            self.cut()
            yield
        finally:
            self._accept(True)

    def _accept(self, accepted: bool) -> None:
        name = sql.Identifier(self._conn.info.dbname)
        self._admin.execute(
            sql.SQL("alter database {} allow_connections {}").format(name, sql.Literal(accepted))
        )
