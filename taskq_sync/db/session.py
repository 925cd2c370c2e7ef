"""One connection of the library's own: what it sets up, how long it waits, and what its errors mean.

Direct or behind a pooler is decided here and nowhere else:

- *direct*: autocommit, read committed set for the session, statements prepared by psycopg when used often;
- *pooled* (transaction mode): no state may stay in the session, so every statement is wrapped in a
  transaction of its own that says read committed, and nothing is prepared.

Results come in the binary format, so `DateStyle`, `IntervalStyle` and `TimeZone` of the role cannot change
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel, waiting
from psycopg.pq import TransactionStatus

from taskq_sync.clock import Deadline
from taskq_sync.db.connections import Params, Row
from taskq_sync.db.faults import is_connection_fault, said_by, sqlstate_of, translate
from taskq_sync.errors import DatabaseUnavailable, InvalidInput, OutcomeUnknown, TaskQError, WrongState

_T = TypeVar("_T")

# How long, after the deadline, a statement may take to answer that it was cancelled. Its answer is worth
# this: it tells "nothing was done" from "unknown".
CANCEL_GRACE = 1.0

# How often, in seconds, a wait looks whether the deadline has come, and how often at most.
LOOK_AT_DEADLINE = 0.1
SHORTEST_LOOK = 0.001

_READ_COMMITTED = b"set session characteristics as transaction isolation level read committed"

# The function of the contract that a statement calls, for messages.
_FUNCTION = re.compile(r"(?:from|select) (?:\"[^\"]+\"|\w+)\.(\w+)\(")

# Answers that came before the statement was run at all.
_NOT_RUN = frozenset({"25006", "57P03"})


class BoundedConnection(psycopg.Connection[Row]):
    """A psycopg connection whose every wait for the server ends at `deadline`.

    At the deadline the statement is cancelled. When no answer comes within `CANCEL_GRACE` either, or when
    libpq is older than 17 and cannot cancel, the connection is closed and the wait raises
    `psycopg.OperationalError`.
    """

    deadline: Deadline = Deadline.never()

    #: Whether the last wait was ended by asking the server to cancel.
    cancelled = False

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **kwargs: Any) -> _T:
        """Run *gen*, one exchange with the server, to its end or to the deadline."""
        if self.deadline.at == math.inf:
            return super().wait(gen, *args, **kwargs)
        return self._wait_bounded(gen)

    def _wait_bounded(self, gen: Generator[Any, Any, _T]) -> _T:
        # psycopg's own loop, which is compiled; it resumes the generator also after each interval in which the
        # socket was not ready. An interruption (Ctrl-C) leaves the connection active, and nobody uses such a one
        # again.
        self.cancelled = False
        interval = max(SHORTEST_LOOK, min(LOOK_AT_DEADLINE, self.deadline.seconds))
        return waiting.wait(self._until_deadline(gen), self.pgconn.socket, interval)

    def _until_deadline(self, gen: Generator[Any, Any, _T]) -> Generator[Any, Any, _T]:
        """Pass on what *gen* wants and gets, and end it when the deadline has come."""
        # The protocol of psycopg's generators: they yield what to wait for, and are sent what is ready.
        deadline = self.deadline
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    wanted = gen.send(ready)
                # Not only when nothing was ready: psycopg 3.2.0 says always that something was.
                if deadline.expired:
                    if self.cancelled or not self._ask_to_cancel():
                        self.close()
                        raise psycopg.OperationalError("no answer from the server")
                    deadline, self.cancelled = Deadline.after(CANCEL_GRACE), True
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _ask_to_cancel(self) -> bool:
        """Ask the server to cancel what it does; return whether an answer may be hoped for."""
        if not psycopg.capabilities.has_cancel_safe():
            # Before libpq 17 asking means to connect without a time limit, and psycopg stops the whole
            # process meanwhile: a network that swallows packets would silence every thread.
            return False
        try:
            self.cancel_safe(timeout=CANCEL_GRACE)
        except psycopg.Error:
            return False
        return True


class Session:
    """One connection of our own, as an `Executor`. Used by one thread at a time.

    `connection` is psycopg's, for code that runs the user's own SQL in a transaction (`ctx.transaction()`).
    """

    def __init__(self, connection: BoundedConnection, *, pooled: bool) -> None:
        """Take a connection that `open_session` has set up."""
        self.connection = connection
        self._pooled = pooled
        # By statement: its cursor, and its text as bytes. A cursor that runs the same object again knows already
        # how to write the parameters and to read the columns, which saves 20 us.
        self._cursors: dict[str, tuple[psycopg.Cursor[Row], bytes]] = {}

    @property
    def in_transaction(self) -> bool:
        """Whether a `transaction()` is open."""
        return self.connection.pgconn.transaction_status != TransactionStatus.IDLE

    @property
    def closed(self) -> bool:
        """Whether the connection was closed, by us or by a broken link."""
        return self.connection.closed

    @property
    def backend_pid(self) -> int:
        """The process id of the server's side; behind a pooler it says nothing."""
        return self.connection.info.backend_pid

    @contextmanager
    def within(self, deadline: Deadline) -> Iterator[Session]:
        """Let every statement inside end by *deadline* (and `CANCEL_GRACE`)."""
        before, self.connection.deadline = self.connection.deadline, deadline
        try:
            yield self
        finally:
            self.connection.deadline = before

    def execute(self, sql: str, params: Params) -> list[Row]:
        """Run one statement of the contract and return its rows.

        Raises the errors of the contract, `SchemaError`, and `DatabaseUnavailable` when nothing was done;
        after that the session may be `closed`. Raises `OutcomeUnknown` when the link broke after the
        statement was sent and it may have been committed. Blocks until the deadline of `within`.
        """
        if self.closed:
            raise DatabaseUnavailable("the connection is closed")
        if self._pooled and not self.in_transaction:
            with self.transaction():
                return self._run(sql, params)
        return self._run(sql, params)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Run the block in one transaction at read committed: committed at its end, rolled back by an
        exception.

        Raises `OutcomeUnknown` when the link broke during COMMIT, `DatabaseUnavailable` when it broke
        before, and `WrongState` when the block has swallowed an error that aborted the transaction. Errors
        of the block pass unchanged.
        """
        connection = self.connection
        with self._faults("begin"):
            connection.execute(b"begin transaction isolation level read committed")
        try:
            yield self
        except BaseException:
            self._roll_back()
            raise
        if connection.info.transaction_status == TransactionStatus.INERROR:
            # COMMIT would roll back, and say so only in a tag that psycopg does not look at.
            self._roll_back()
            raise WrongState("the transaction was aborted by an error inside it, and has been rolled back")
        with self._faults("commit", committing=True):
            connection.commit()

    def is_alive(self) -> bool:
        """Whether the link still stands, as far as the socket tells; nothing is sent.

        An idle server says nothing unless it ends the session (or a setting was reloaded).
        """
        try:
            # None of these waits. The first may take the server's last words, the second then meets the end of the
            # stream.
            for _ in range(3):
                self.connection.pgconn.consume_input()
        except psycopg.Error:
            return False
        return not self.closed

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self.connection.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self, sql: str, params: Params) -> list[Row]:
        committing = not self.in_transaction
        try:
            kept = self._cursors.pop(sql, None)
            cursor, query = kept if kept is not None else (self.connection.cursor(binary=True), sql.encode())
            rows = cursor.execute(query, params).fetchall()
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self._meaning(error, _name_of(sql), committing) from error
        if len(rows) <= 1:  # a cursor holds its last result, and a claim may bring megabytes
            self._cursors[sql] = cursor, query
        return rows

    def _roll_back(self) -> None:
        try:
            self.connection.rollback()
        except psycopg.Error:
            self.close()

    @contextmanager
    def _faults(self, what: str, *, committing: bool = False) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._meaning(error, what, committing) from error

    def _meaning(self, error: psycopg.Error | UnicodeEncodeError, what: str, committing: bool) -> TaskQError:
        if isinstance(error, UnicodeEncodeError):  # a lone surrogate in a parameter; nothing was sent
            return InvalidInput(f"could not {what}: {error}")
        deadline = self.connection.deadline
        state = sqlstate_of(error)
        if is_connection_fault(error):
            self.close()
            if committing and state not in _NOT_RUN:
                return OutcomeUnknown(
                    f"the link to the database broke during {what}, which may or may not have been done: "
                    f"{said_by(error)}",
                    sqlstate=state,
                )
        if state == "57014" and deadline.expired and self.connection.cancelled:
            return DatabaseUnavailable(f"could not {what} within {deadline.seconds:g} s", sqlstate=state)
        return translate(error, what)


def open_session(conninfo: str, *, pooled: bool, deadline: Deadline, target: str) -> Session:
    """Connect and set the session up.

    Blocks until *deadline*, or as long as libpq needs to resolve the host. Raises `DatabaseUnavailable`;
    *target* names the database in it.
    """
    try:
        connection = BoundedConnection.connect(
            conninfo, autocommit=True, prepare_threshold=None if pooled else 5
        )
    except psycopg.Error as error:
        raise translate(error, f"connect to {target}") from error
    try:
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        connection.deadline = deadline
        if not pooled:
            # The default of the role may be stricter, and SKIP LOCKED then fails with serialization errors.
            connection.execute(_READ_COMMITTED)
    except psycopg.Error as error:
        connection.close()
        raise translate(error, f"connect to {target}") from error
    connection.deadline = Deadline.never()
    return Session(connection, pooled=pooled)


def _name_of(sql: str) -> str:
    found = _FUNCTION.search(sql)
    return found[1] if found else "run a statement"
