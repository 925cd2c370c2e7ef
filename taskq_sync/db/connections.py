"""How the library runs a statement on a connection that the caller handed in.

::

    with psycopg.connect(dsn) as conn:            # or a SQLAlchemy Connection or Session
        conn.execute("insert into orders ...")
        send_mail.using(connection=conn).enqueue(order_id=7)   # committed, or rolled back, with the order

One small class per driver, each an `Executor`. They are found by the module of the object's type, so no
driver is imported for it. None commits, rolls back, closes, opens a savepoint or changes a setting: the
transaction is the caller's. Errors with a SQLSTATE of the contract become errors of the library; all others
are the driver's own and pass unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from taskq_sync.db.faults import contract_error
from taskq_sync.errors import ConfigError

Params = Mapping[str, object]
Row = tuple[Any, ...]


class Executor(Protocol):
    """What the layer above needs of any connection."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of somebody's is open, or will be by the next statement."""
        ...

    def execute(self, sql: str, params: Params) -> list[Row]:
        """Run one statement with parameters in the form `%(name)s` and return its rows as tuples."""
        ...


def executor_for(connection: object) -> Executor:
    """Return the executor for a connection of a caller.

    Takes a connection or cursor of psycopg 3 or psycopg2, and a SQLAlchemy Connection, Session or scoped
    session over one of these drivers. Raises `ConfigError` for anything else.
    """
    for kind in type(connection).__mro__:
        make = _EXECUTORS.get(kind.__module__.partition(".")[0])
        if make is not None:
            return make(connection)
    raise ConfigError(
        f"cannot enqueue through a {_type_name(connection)}",
        hint="hand in a connection of psycopg, or a SQLAlchemy Connection or Session",
    )


class PsycopgExecutor:
    """A connection of psycopg 3, or the connection of a cursor."""

    def __init__(self, connection: Any) -> None:
        """Take the connection; an asynchronous one is a `ConfigError`."""
        self._connection = getattr(connection, "connection", connection)
        if type(self._connection).__name__.startswith("Async"):
            raise ConfigError(
                f"a {_type_name(connection)} is asynchronous, and taskq_sync is not",
                hint="use a psycopg.Connection",
            )

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or opens with the next statement."""
        return not self._connection.autocommit or self._connection.info.transaction_status != 0

    def execute(self, sql: str, params: Params) -> list[Row]:
        """Run *sql* in a cursor of its own, so that the caller's cursor and row factory are left alone."""
        with contract_errors(), self._connection.cursor(row_factory=_tuple_row) as cursor:
            cursor.execute(sql, params)
            return [_text_row(row) for row in cursor.fetchall()]


class Psycopg2Executor:
    """A connection of psycopg2, or the connection of a cursor."""

    def __init__(self, connection: Any) -> None:
        """Take the connection."""
        self._connection = getattr(connection, "connection", connection)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or opens with the next statement."""
        return not self._connection.autocommit or self._connection.info.transaction_status != 0

    def execute(self, sql: str, params: Params) -> list[Row]:
        """Run *sql* in a cursor of its own, whatever the cursor factory of the connection makes of rows."""
        with contract_errors(), self._connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows = cursor.fetchall()
            return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]


class SQLAlchemyExecutor:
    """A SQLAlchemy Connection, or the connection of a Session or scoped session."""

    _DRIVERS = ("psycopg", "psycopg2")

    def __init__(self, connection: Any) -> None:
        """Take it; an engine, an asynchronous session or another driver is a `ConfigError`."""
        self._source = connection
        if not (hasattr(connection, "exec_driver_sql") or hasattr(connection, "connection")):
            raise ConfigError(
                f"a {_type_name(connection)} is no connection",
                hint="hand in a Connection or a Session, in whose transaction the job shall be",
            )

    @property
    def in_transaction(self) -> bool:
        """Always: SQLAlchemy begins a transaction with the first statement."""
        return True

    def execute(self, sql: str, params: Params) -> list[Row]:
        """Run *sql* as it is, through the driver."""
        connection = self._connection()
        with contract_errors():
            return [_text_row(tuple(row)) for row in connection.exec_driver_sql(sql, dict(params))]

    def _connection(self) -> Any:
        # A Session is asked each time: after a commit it may hold another connection.
        source = self._source
        connection = source if hasattr(source, "exec_driver_sql") else source.connection()
        driver = getattr(getattr(connection, "dialect", None), "driver", None)
        if driver not in self._DRIVERS:
            raise ConfigError(
                f"cannot enqueue through the driver {driver!r} of SQLAlchemy",
                hint="use postgresql+psycopg:// or postgresql+psycopg2://",
            )
        return connection


_EXECUTORS: Mapping[str, Callable[[object], Executor]] = {
    "psycopg": PsycopgExecutor,
    "psycopg2": Psycopg2Executor,
    "sqlalchemy": SQLAlchemyExecutor,
}


@contextmanager
def contract_errors() -> Iterator[None]:
    """Turn an error that carries a SQLSTATE of the contract into the library's; let all others pass."""
    try:
        yield
    except Exception as error:
        translated = contract_error(error)
        if translated is None:
            raise
        raise translated from error


def _tuple_row(cursor: object) -> Callable[[Sequence[object]], Row]:
    return tuple


def _text_row(row: Row) -> Row:
    # A session in SQL_ASCII gets bytes for text.
    if bytes not in map(type, row):
        return row
    return tuple(value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
