"""Statements that clients send, counted by pg_stat_statements in the database of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

#: For a server that we start: counts nothing, and costs next to nothing, until a database says `start`.
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "none",
    "compute_query_id": "off",
}

_START = """
do $$ begin
  execute format('alter database %I set pg_stat_statements.track = top', current_database());
  execute format('alter database %I set compute_query_id = on', current_database());
end $$
"""

_COUNTED = """
select s.calls, left(s.query, 60)
from pg_stat_statements s join pg_database d on d.oid = s.dbid
where d.datname = current_database() and s.toplevel and s.query not like '%pg\\_stat\\_statements%'
order by s.calls desc
"""


def is_possible(conn: psycopg.Connection[Any]) -> bool:
    """Return whether the server has the library loaded."""
    row = conn.execute("select current_setting('shared_preload_libraries')").fetchone()
    return row is not None and "pg_stat_statements" in row[0]


def start(conn: psycopg.Connection[Any]) -> None:
    """Count from now on what new sessions of the database send."""
    conn.execute("create extension if not exists pg_stat_statements")
    conn.execute(_START)


def stop(conn: psycopg.Connection[Any]) -> None:
    """Count nothing of sessions that begin from now on."""
    conn.execute(_START.replace("= top", "= none").replace("= on", "= off").encode())


def reset(conn: psycopg.Connection[Any]) -> None:
    """Begin at 0."""
    conn.execute("select pg_stat_statements_reset()")


def counted(conn: psycopg.Connection[Any]) -> Sequence[tuple[int, str]]:
    """Return how often each statement was sent since `reset`, most often first, and how it begins."""
    return conn.execute(_COUNTED).fetchall()
