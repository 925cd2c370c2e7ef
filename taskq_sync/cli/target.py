"""Which database a command works on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from attrs import frozen

from taskq_sync.db.config import read_config
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.pool import Database
from taskq_sync.db.queues import Queues
from taskq_sync.db.schema import Schema, SchemaState
from taskq_sync.db.session import Session
from taskq_sync.db.workers import Workers
from taskq_sync.errors import DatabaseUnavailable

_Command = TypeVar("_Command", bound=Callable[..., Any])

_DSN_HELP = "The database. Other users of the machine can read it here: a password is better in TASKQ_DSN."


@frozen
class Connected:
    """An open session to a schema that this package may work with."""

    session: Session
    jobs: Jobs
    queues: Queues
    workers: Workers
    state: SchemaState


class Target:
    """The database and schema that the options and the environment name."""

    def __init__(self, dsn: str | None, schema: str | None) -> None:
        self.dsn_option = dsn
        self.schema_option = schema
        self._config = read_config(dsn, schema=schema)
        self.schema = Schema(self._config.schema)

    @contextmanager
    def open(self) -> Iterator[Session]:
        """Connect, whatever the database holds. Raises `DatabaseUnavailable`."""
        with open_session(Database(self._config)) as session:
            yield session

    @contextmanager
    def connect(self) -> Iterator[Connected]:
        """Connect and check the schema. Raises `DatabaseUnavailable` and `SchemaError`."""
        database = Database(self._config)
        with open_session(database) as session:
            state = self.schema.check_client(session.connection)
            sql = database.statements
            yield Connected(session, Jobs(sql), Queues(sql), Workers(sql), state)


def open_session(database: Database) -> Session:
    """Connect for a command. Raises `DatabaseUnavailable`, which says where the address comes from."""
    try:
        return database.connect("taskq-cli")
    except DatabaseUnavailable as error:
        hint = error.hint or "check --dsn, TASKQ_DSN, DATABASE_URL or the PG* variables"
        raise DatabaseUnavailable(error.message, hint=hint, sqlstate=error.sqlstate) from error


def takes_target(command: _Command) -> _Command:
    """Give a command the options `--dsn` and `--schema`, and hand it a `Target` as its first argument."""

    @click.option("--dsn", metavar="DSN", help=_DSN_HELP)
    @click.option("--schema", metavar="NAME", help="The schema of the jobs, else TASKQ_SCHEMA, else taskq.")
    @functools.wraps(command)
    def wrapper(*args: Any, dsn: str | None, schema: str | None, **options: Any) -> Any:
        return command(Target(dsn, schema), *args, **options)

    return wrapper  # type: ignore[return-value]  # click replaces the function by a Command anyway
