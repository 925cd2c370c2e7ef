"""Roles with few rights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from attrs import frozen
from psycopg import sql

_numbers = itertools.count(1)


@frozen
class Role:
    """A login that may do nothing but what a test grants it; *dsn* connects as it."""

    name: str
    dsn: str

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Return an autocommit connection as the role."""
        return psycopg.connect(self.dsn, autocommit=True)


@contextmanager
def low_role(conn: psycopg.Connection[tuple[object, ...]], dsn: str, *, prefix: str) -> Iterator[Role]:
    """Lend a new login to the database of *dsn*; *conn* is its owner there. Dropped with all it owns."""
    name = f"{prefix}_{conn.info.backend_pid}_{next(_numbers)}"
    role = sql.Identifier(name)
    conn.execute(sql.SQL("create role {} login password 'low'").format(role))
    try:
        yield Role(name, psycopg.conninfo.make_conninfo(dsn, user=name, password="low"))
    finally:
        conn.execute(sql.SQL("drop owned by {} cascade").format(role))
        conn.execute(sql.SQL("drop role {}").format(role))
