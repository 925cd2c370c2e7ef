"""Databases of a test run: one template, migrated once, and cheap copies of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from kit import flavours
from kit.servers import Run
from kit.waiting import eventually
from taskq_sync.embedded.lock import FileLock


class Databases:
    """Makes and drops the databases of one process of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._server_dsn = run.dsn()
        self._prefix = run.database_prefix
        self._numbers = itertools.count(1)
        self.admin = psycopg.connect(self._server_dsn, autocommit=True, application_name="tests-admin")

    def close(self) -> None:
        """Give the administration's connection back."""
        self.admin.close()

    @property
    def _template(self) -> str:
        return f"{self._prefix}template"

    @contextmanager
    def copy(self) -> Iterator[str]:
        """Lend a database with the schema `taskq` in it, as its DSN."""
        with self._template_lock():
            self._make_template()
            name = self._create(template=self._template)
        yield from self._lend(name)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """Lend a database with nothing in it, as its DSN."""
        yield from self._lend(self._create(template="template0"))

    def sessions(self, dsn: str) -> list[str]:
        """Describe the sessions of the database that are not this object's."""
        rows = self.admin.execute(
            """
            select format('pid %%s %%s: %%s: %%s', pid, application_name, state, query) from pg_stat_activity
            where datname = %s and backend_type = 'client backend' and pid <> pg_backend_pid()
            """,
            (_name(dsn),),
        )
        return [row[0] for row in rows]

    def end_sessions(self, dsn: str) -> None:
        """End what `sessions` shows."""
        self.admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (_name(dsn),)
        )
        eventually(lambda: not self.sessions(dsn), "the sessions of the database end")

    def _lend(self, name: str) -> Iterator[str]:
        try:
            yield self._dsn(name)
        finally:
            self._drop(name)

    def _dsn(self, name: str) -> str:
        return psycopg.conninfo.make_conninfo(self._server_dsn, dbname=name, **flavours.dsn_options())

    @contextmanager
    def _template_lock(self) -> Iterator[None]:
        # Making the template is for one process, and copying it for one at a time: PostgreSQL refuses a
        # template that another session is in.
        lock = FileLock.wait_for(self._run.folder / "template.lock", 120)
        assert lock is not None, "another process of the run has kept the template for two minutes"
        try:
            yield
        finally:
            lock.release()

    def _make_template(self) -> None:
        made = self.admin.execute(
            "select 1 from pg_database where datname = %s", (self._template,)
        ).fetchone()
        if made is not None:
            return
        unfinished = self._create(template="template0")
        with psycopg.connect(self._dsn(unfinished), autocommit=True) as conn:
            flavours.schema().migrate(conn)
        eventually(lambda: not self._in_use(unfinished), "the session of the migration ends")
        self.admin.execute(
            sql.SQL("alter database {} rename to {}").format(
                sql.Identifier(unfinished), sql.Identifier(self._template)
            )
        )

    def _in_use(self, name: str) -> bool:
        found = self.admin.execute("select from pg_stat_activity where datname = %s", (name,))
        return found.fetchone() is not None

    def _create(self, *, template: str) -> str:
        name = f"{self._prefix}{os.getpid()}_{next(self._numbers)}"
        options = flavours.options() if template == "template0" else sql.SQL("")
        self.admin.execute(
            sql.SQL("create database {} template {} {}").format(
                sql.Identifier(name), sql.Identifier(template), options
            )
        )
        flavours.configure(self.admin, name)
        return name

    def _drop(self, name: str) -> None:
        self.admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _name(dsn: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])


def clear(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Empty every table of the schema `taskq` that has rows, and put the settings back to their defaults."""
    filled = conn.execute(_FILLED_TABLES_QUERY).fetchone()
    tables = conn.execute(str(filled[0]).encode()).fetchall() if filled and filled[0] else []
    if tables:
        schema = flavours.chosen().schema
        names = sql.SQL(", ").join(sql.Identifier(schema, str(row[0])) for row in tables)
        conn.execute("set lock_timeout = '10s'")
        conn.execute(sql.SQL("truncate {}").format(names))
    conn.execute("update taskq.settings set strict_queues = false where strict_queues")


# A truncate costs by the table; a look into an empty one costs next to nothing.
_FILLED_TABLES_QUERY = """
select string_agg(format('select %1$L where exists (select from taskq.%1$I)', tablename), ' union all ')
from pg_tables where schemaname = 'taskq' and tablename <> 'settings'
"""
