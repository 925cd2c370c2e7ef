"""Where a benchmark is run: a server, and a database of its own in it."""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import psycopg
from attrs import frozen
from psycopg import conninfo, sql

from benchmarks.crew import Crew
from benchmarks.figures import Machine
from taskq_sync.db.schema import Schema
from taskq_sync.embedded import EmbeddedServer

#: Of the server that we start: enough for every client, and no checkpoint in the middle of a run.
_SETTINGS = {
    "max_connections": "400",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
}

#: Of the database, whatever its server says: a commit is on disk when it returns.
_DURABLE = {"synchronous_commit": "on", "default_transaction_isolation": "read committed"}


#: One run may need several databases.
_numbers = itertools.count()


@frozen(kw_only=True)
class Site:
    """A migrated database, the *conn* that prepares and checks it (autocommit), and the clients that work on it."""

    dsn: str
    conn: psycopg.Connection[tuple[Any, ...]]
    crew: Crew


takes_server = click.option(
    "--dsn", envvar="TASKQ_DSN", help="A server that may make databases; one is started without it."
)


@contextmanager
def server(dsn: str | None, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Lend the server of *dsn*, or start one with durable commits, stopped and removed at the end.

    *settings* are for a server that is started.
    """
    if dsn is not None:
        yield dsn
        return
    with own_server(settings) as embedded:
        yield embedded.dsn


@contextmanager
def own_server(settings: Mapping[str, str] | None = None) -> Iterator[EmbeddedServer]:
    """Lend a new server with durable commits, for whoever stops and starts it; removed at the end."""
    # Not the folder for temporary files, which may lie in memory: a flush to disk is part of what is measured.
    folder = Path(tempfile.mkdtemp(prefix="taskq-benchmarks-", dir=_on_disk()))
    try:
        folder.chmod(0o711)  # the server's account, where root runs this, must get through
        with EmbeddedServer(folder / "server", settings={**_SETTINGS, **(settings or {})}) as embedded:
            yield embedded
    finally:
        shutil.rmtree(folder)


@contextmanager
def site(server_dsn: str) -> Iterator[Site]:
    """Lend a new database on the server, with the schema in it; dropped at the end."""
    with (
        database(server_dsn) as dsn,
        psycopg.connect(dsn, autocommit=True) as conn,
        closing(Crew(dsn)) as crew,
    ):
        yield Site(dsn=dsn, conn=conn, crew=crew)


@contextmanager
def database(server_dsn: str) -> Iterator[str]:
    """Lend the DSN of a new database with the schema in it; no session stays open. Dropped at the end."""
    name = f"taskq_benchmark_{os.getpid()}_{next(_numbers)}"
    identifier = sql.Identifier(name)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template template0").format(identifier))
    try:
        dsn = conninfo.make_conninfo(server_dsn, dbname=name)
        with psycopg.connect(dsn, autocommit=True) as conn:
            for setting, value in _DURABLE.items():
                conn.execute(
                    sql.SQL("alter database {} set {} = {}").format(
                        identifier, sql.Identifier(setting), sql.Literal(value)
                    )
                )
        with psycopg.connect(dsn, autocommit=True) as conn:  # a new session, which has the settings
            Schema().migrate(conn)
        yield dsn
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(identifier))


def machine(server_dsn: str) -> Machine:
    """Describe where the figures come from."""
    with psycopg.connect(server_dsn) as conn:
        version = conn.info.parameter_status("server_version") or "unknown"
    return Machine(server=version.split()[0], python=platform.python_version(), cpus=os.cpu_count() or 1)


def warnings(server_dsn: str) -> list[str]:
    """Return what makes figures of the server incomparable, one sentence each."""
    found = []
    with psycopg.connect(server_dsn) as conn:
        for setting in ("fsync", "full_page_writes"):
            row = conn.execute("select current_setting(%s)", (setting,)).fetchone()
            if row == ("off",):
                found.append(f"{setting} is off: commits of this server do not survive a crash")
    if psycopg.pq.__impl__ == "python":
        found.append("psycopg runs without its C parts: install psycopg[binary]")
    return found


def _on_disk() -> str | None:
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
