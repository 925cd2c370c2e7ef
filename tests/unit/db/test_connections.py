"""Which executor serves a caller's connection; what they do is in `tests/client/test_connections.py`."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from taskq_sync.db.connections import Psycopg2Executor, PsycopgExecutor, SQLAlchemyExecutor, executor_for
from taskq_sync.errors import ConfigError


def stand_in(module: str, name: str, bases: tuple[type, ...] = (), **members: Any) -> Any:
    """Return an object of a type that says it is from *module*."""
    return type(name, bases or (object,), {"__module__": module, **members})()


@pytest.mark.parametrize(
    ("connection", "kind"),
    [
        (stand_in("psycopg", "Connection"), PsycopgExecutor),
        (stand_in("psycopg.cursor", "Cursor", connection=stand_in("psycopg", "Connection")), PsycopgExecutor),
        (stand_in("psycopg2.extensions", "connection"), Psycopg2Executor),
        (stand_in("sqlalchemy.engine.base", "Connection", exec_driver_sql=None), SQLAlchemyExecutor),
        (stand_in("sqlalchemy.orm.scoping", "scoped_session", connection=None), SQLAlchemyExecutor),
    ],
)
def test_is_found_by_the_module_of_the_type(connection: object, kind: type) -> None:
    assert type(executor_for(connection)) is kind


def test_is_found_for_a_subclass_of_the_users_own() -> None:
    base = type(stand_in("psycopg", "Connection"))

    assert isinstance(executor_for(stand_in("shop.db", "TracedConnection", (base,))), PsycopgExecutor)


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (7, "cannot enqueue through a builtins.int: hand in a connection of psycopg"),
        (None, "NoneType"),
        (stand_in("psycopg", "AsyncConnection"), "is asynchronous"),
        (stand_in("sqlalchemy.engine.base", "Engine"), "is no connection: hand in a Connection or a Session"),
    ],
)
def test_anything_else_is_refused_by_name(connection: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        executor_for(connection)


def test_another_database_is_refused() -> None:
    with sqlite3.connect(":memory:") as connection, pytest.raises(ConfigError, match=r"sqlite3\.Connection"):
        executor_for(connection)
    connection.close()
