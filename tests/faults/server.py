"""The server of the scenarios: it can be killed, made read-only, and have its sessions ended; and it keeps a log."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from attrs import frozen
from psycopg import conninfo, sql

from kit.waiting import eventually
from taskq_sync.db.schema import Schema
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.embedded.postmaster import Postmaster

Connection = psycopg.Connection[Any]

#: The log says who and which SQLSTATE: only by these can asked-for errors be told from others.
_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "32MB",
    "log_line_prefix": "%m\t%p\t%a\t%e\t",
    "log_statement": "none",
    "wal_writer_delay": "10s",  # what an asynchronous commit leaves in memory is lost with the server
    "restart_after_crash": "on",
}

_TEMPLATE = "faults_template"
_LINE = re.compile(
    r"^[^\t]*\t(?P<pid>\d+)\t(?P<who>[^\t]*)\t(?P<state>[^\t]*)\t(?P<level>[A-Z]+):  (?P<text>.*)"
)
_BAD = frozenset({"ERROR", "FATAL", "PANIC"})


@frozen
class LogLine:
    """One complaint in the log of the server; *state* is its SQLSTATE."""

    who: str
    state: str
    level: str
    text: str


class FaultServer:
    """A server of the tests' own. Lives in *folder*; `start` and `stop` as often as one likes."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedServer(folder, durable=False, settings=_SETTINGS)
        self._numbers = itertools.count(1)

    @property
    def folder(self) -> Path:
        """Where its data and its log are."""
        return self._server.folder

    @property
    def dsn(self) -> str:
        """The database `postgres`, as the superuser."""
        return self._server.dsn

    def start(self) -> None:
        """Start it, after whatever happened before; recovery included."""
        self._server.start()

    def stop(self) -> None:
        """Stop it in good order; sessions are ended."""
        self._server.stop()

    def kill(self) -> None:
        """Stop it as a crash would: no goodbye, and what was not written is lost (`pg_ctl stop -m immediate`)."""
        os.kill(self.postmaster, signal.SIGQUIT)
        self._server.stop()  # waits for the end

    @contextmanager
    def down(self, *, crash: bool = True) -> Iterator[None]:
        """Have it down for the length of the block."""
        if crash:
            self.kill()
        else:
            self.stop()
        try:
            yield
        finally:
            self.start()

    @property
    def postmaster(self) -> int:
        """The process id of the server."""
        found = Postmaster.read(self.folder / "data")
        assert found is not None, "the server does not run"
        return found.pid

    @contextmanager
    def connect(self, dsn: str | None = None) -> Iterator[Connection]:
        """Lend an autocommit connection, to the database `postgres` unless told otherwise."""
        with psycopg.connect(dsn or self.dsn, autocommit=True, application_name="faults-admin") as conn:
            yield conn

    def set(self, **settings: str) -> None:
        """Change settings for all sessions, as an operator would: ALTER SYSTEM and a reload."""
        with self.connect() as conn:
            for name, value in settings.items():
                conn.execute(
                    sql.SQL("alter system set {} = {}").format(sql.Identifier(name), sql.Literal(value))
                )
            self._reload(conn)

    def reset(self) -> None:
        """Put all settings back, and drop the roles that were made."""
        with self.connect() as conn:
            conn.execute("set default_transaction_read_only = off")
            conn.execute("alter system reset all")
            self._reload(conn)
            for (name,) in conn.execute(
                "select rolname from pg_roles where rolname like 'faults%'"
            ).fetchall():
                conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Behave like a demoted primary for the length of the block."""
        self.set(default_transaction_read_only="on")
        try:
            yield
        finally:
            self.set(default_transaction_read_only="off")

    @contextmanager
    def as_standby(self) -> Iterator[None]:
        """Be a hot standby for the length of the block: always in recovery, and read-only."""
        signal_file = self.folder / "data" / "standby.signal"
        self.stop()
        signal_file.touch()
        self.start()
        try:
            yield
        finally:
            self.kill()
            signal_file.unlink()
            self.start()

    def terminate(self, part: str = "taskq-") -> list[int]:
        """Ask the sessions whose application_name contains *part* to end, and return their process ids."""
        with self.connect() as conn:
            rows = conn.execute(
                "select pid, pg_terminate_backend(pid) from pg_stat_activity"
                " where strpos(application_name, %s) > 0 and backend_type = 'client backend'",
                (part,),
            ).fetchall()
            return [pid for pid, _ in rows]

    @contextmanager
    def database(self, name: str | None = None) -> Iterator[str]:
        """Lend a new database with the schema `taskq` in it, as its DSN."""
        name = name or f"faults_{next(self._numbers)}"
        with self.connect() as conn:
            if conn.execute("select from pg_database where datname = %s", (_TEMPLATE,)).fetchone() is None:
                self._make_template(conn)
            conn.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(_TEMPLATE)
                )
            )
        try:
            yield conninfo.make_conninfo(self.dsn, dbname=name)
        finally:
            with self.connect() as conn:
                conn.execute("set default_transaction_read_only = off")
                conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def role(self, dsn: str, settings: Mapping[str, str]) -> str:
        """Make a role that owns what is in the database of *dsn*, with *settings*, and return its DSN."""
        name = f"faults_role_{next(self._numbers)}"
        role = sql.Identifier(name)
        with self.connect(dsn) as conn:
            conn.execute(sql.SQL("create role {} login in role postgres").format(role))
            for setting, value in settings.items():
                conn.execute(
                    sql.SQL("alter role {} set {} = {}").format(
                        role, sql.Identifier(setting), sql.Literal(value)
                    )
                )
        return conninfo.make_conninfo(dsn, user=name)

    def log_size(self) -> int:
        """The length of the log, to read on from."""
        with contextlib.suppress(FileNotFoundError):
            return self._server.log.stat().st_size
        return 0

    def complaints(self, since: int) -> list[LogLine]:
        """Return the errors in the log behind the position *since*, and the warnings to sessions of ours."""
        with self._server.log.open("rb") as log:
            log.seek(since)
            text = log.read().decode(errors="replace")
        found = (_LINE.match(line) for line in text.splitlines())
        lines = (
            LogLine(each["who"], each["state"], each["level"], each["text"])
            for each in found
            if each is not None
        )
        return [
            line
            for line in lines
            if line.level in _BAD or (line.level == "WARNING" and line.who.startswith("taskq-"))
        ]

    def _make_template(self, conn: Connection) -> None:
        unfinished = f"{_TEMPLATE}_unfinished"
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(unfinished)))
        with self.connect(conninfo.make_conninfo(self.dsn, dbname=unfinished)) as made:
            Schema().migrate(made)
        in_use = "select from pg_stat_activity where datname = %s"
        eventually(lambda: not conn.execute(in_use, (unfinished,)).fetchone(), "the migration's session ends")
        conn.execute(
            sql.SQL("alter database {} rename to {}").format(
                sql.Identifier(unfinished), sql.Identifier(_TEMPLATE)
            )
        )

    def _reload(self, conn: Connection) -> None:
        asked = "select pg_conf_load_time()"
        [(before,)] = conn.execute(asked).fetchall()
        conn.execute("select pg_reload_conf()")

        def loaded() -> bool:
            with self.connect() as fresh:  # inherits what the main process has read
                [(at,)] = fresh.execute(asked).fetchall()
                return bool(at > before)

        eventually(loaded, "the server reads its settings again")
