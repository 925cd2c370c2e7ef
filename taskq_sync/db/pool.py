"""The connections of one process: a small pool for the client, and dedicated ones for the parts of a worker.

The pool connects in the thread that asks, without threads of its own. So a wrong password is that caller's
error at once instead of a timeout and a line in a log; nothing has to be stopped at exit; and it works
where threads do not (uWSGI without `enable-threads`), and in a child after a fork.

A child must neither use nor close a socket of its parent. At fork every pool forgets its sessions; they are
kept alive, unused, so that no finalizer says goodbye to the parent's server.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from taskq_sync.clock import Deadline, monotonic
from taskq_sync.db.config import DatabaseConfig, advice
from taskq_sync.db.listen import Listener
from taskq_sync.db.session import Session, open_session
from taskq_sync.db.statements import Statements
from taskq_sync.errors import ConfigError, DatabaseUnavailable
from taskq_sync.interrupts import uninterrupted

# A session that nobody needed for so long is closed when the pool is next used: firewalls forget idle
# links, and a name may by now stand for another host.
MAX_IDLE = 300.0

_pools: weakref.WeakSet[SessionPool] = weakref.WeakSet()
_inherited: list[object] = []


class SessionPool:
    """At most *size* sessions, made when needed and kept for the next caller.

    `_lock` guards `_idle`, `_count` and `_epoch`, and is never held while talking to a server. `_count` is
    the number of sessions in use, being made or idle; whoever gives a place back notifies one waiter.
    """

    def __init__(self, config: DatabaseConfig, *, name: str, size: int) -> None:
        """Describe the pool; nothing connects. *name* is the `application_name`."""
        self._config = config
        self._name = name
        self._size = size
        self._start_empty()
        _pools.add(self)

    def _start_empty(self) -> None:
        self._lock = threading.Lock()
        self._place_free = threading.Condition(self._lock)
        self._idle: list[tuple[float, Session]] = []  # since when, the latest last
        self._at_exit = weakref.finalize(self, _close_all, self._idle, os.getpid())
        self._count = 0
        self._epoch = 0

    @contextmanager
    def session(self, deadline: Deadline) -> Iterator[Session]:
        """Lend a session whose statements end by *deadline*.

        Raises `DatabaseUnavailable` when none is free in time, or when connecting fails. A session that comes
        back closed or in a transaction is not lent again.
        """
        with uninterrupted():  # a session that is broken off half way would never come back
            session, epoch = self._take(deadline)
            try:
                with session.within(deadline):
                    yield session
            finally:
                self._put(session, epoch)

    def close(self) -> None:
        """Close the idle sessions, and those in use when they come back. A later call connects anew."""
        with self._lock:
            idle = self._idle[:]
            self._idle.clear()
            self._count -= len(idle)
            self._epoch += 1
            self._place_free.notify_all()
        for _, session in idle:
            session.close()

    def forget(self) -> None:
        """Start anew in a child process, without touching what it inherited; its locks may be held for
        ever."""
        self._at_exit.detach()
        _inherited.append((self._idle, self._lock, self._place_free))
        self._start_empty()

    def _take(self, deadline: Deadline) -> tuple[Session, int]:
        session, too_old, epoch = self._reserve(deadline)
        for old in too_old:
            old.close()
        try:
            if session is not None:
                if session.is_alive():
                    return session, epoch
                session.close()
                self._close_dead()  # what broke this one has mostly broken the others
            return self._open(deadline), epoch
        except BaseException:
            self._give_place_back()
            raise

    def _reserve(self, deadline: Deadline) -> tuple[Session | None, list[Session], int]:
        """Take an idle session, or (None) the place for a new one; and the sessions that were idle too
        long."""
        with self._lock:
            if not self._has_place() and not self._place_free.wait_for(self._has_place, deadline.timeout):
                raise DatabaseUnavailable(
                    f"all {self._size} connections of {self._name} were in use for {deadline.seconds:g} s"
                )
            session = self._idle.pop()[1] if self._idle else None
            if session is None:
                self._count += 1
            limit = monotonic() - MAX_IDLE
            too_old = [old for since, old in self._idle if since < limit]
            del self._idle[: len(too_old)]
            self._count -= len(too_old)
            return session, too_old, self._epoch

    def _close_dead(self) -> None:
        """Close the idle sessions that are broken, which at the bottom nobody would touch for long."""
        with self._lock:
            dead = [each for each in self._idle if not each[1].is_alive()]
            self._idle[:] = [each for each in self._idle if each not in dead]
            self._count -= len(dead)
            self._place_free.notify(len(dead))
        for _, session in dead:
            session.close()

    def _has_place(self) -> bool:
        return bool(self._idle) or self._count < self._size

    def _open(self, deadline: Deadline) -> Session:
        return _open(self._config, self._name, deadline)

    def _put(self, session: Session, epoch: int) -> None:
        reusable = not session.closed and not session.in_transaction
        with self._lock:
            reusable = reusable and epoch == self._epoch
            if reusable:
                self._idle.append((monotonic(), session))
                self._place_free.notify()
        if not reusable:
            session.close()
            self._give_place_back()

    def _give_place_back(self) -> None:
        with self._lock:
            self._count -= 1
            self._place_free.notify()


class Database:
    """Everything that connects to one database, for one process; nothing connects before it is needed.

    `config` holds the settings and `statements` the SQL for its schema.
    """

    def __init__(self, config: DatabaseConfig) -> None:
        """Describe the database."""
        self.config = config
        self.statements = Statements(config.schema)
        self.client_pool = SessionPool(config, name="taskq-client", size=config.pool_size)

    @contextmanager
    def connection(self, timeout: float | None = None) -> Iterator[Session]:
        """Lend a session of the client's pool for calls that end within *timeout* seconds, the default if
        None.

        One attempt: a database that is down is `DatabaseUnavailable` at once.
        """
        with self.client_pool.session(self.deadline(timeout)) as session:
            yield session

    def connect(self, name: str, timeout: float | None = None) -> Session:
        """Return a session of the caller's own, with *name* as its `application_name`; the caller closes it.

        One attempt, bounded by *timeout* seconds. The statements that follow have no deadline but that of
        `session.within`. Raises `DatabaseUnavailable`.
        """
        return _open(self.config, name, self.deadline(timeout))

    def connect_direct(self, name: str, timeout: float | None = None) -> Session:
        """Return a session of the caller's own that passes no pooler, so that it may keep state.

        As `connect`; raises `ConfigError` where there is none (see `config.can_listen`).
        """
        if not self.config.can_listen:
            raise ConfigError(
                "nothing stays in a session behind a pooler: neither a LISTEN nor a lock",
                hint="set listen_dsn or TASKQ_LISTEN_DSN to a direct connection",
            )
        return _open(self.config, name, self.deadline(timeout), listening=True)

    def pool(self, name: str, size: int) -> SessionPool:
        """Return a further pool of *size* sessions; the caller closes it."""
        return SessionPool(self.config, name=name, size=size)

    def listen(self, name: str, timeout: float | None = None) -> Listener:
        """Connect and LISTEN to the channel of the schema; the caller closes it.

        One attempt, bounded by *timeout* seconds. Raises `ConfigError` where nothing can listen (see
        `config.can_listen`), `DatabaseUnavailable`.
        """
        deadline = self.deadline(timeout)
        session = self.connect_direct(name, timeout)
        with session.within(deadline):
            return Listener(session, self.statements)

    def deadline(self, timeout: float | None = None) -> Deadline:
        """Return the deadline of a call that begins now."""
        return Deadline.after(self.config.timeout if timeout is None else timeout)

    def close(self) -> None:
        """Close the idle connections of the client. A later call connects anew."""
        self.client_pool.close()

    def __repr__(self) -> str:
        return f"Database({self.config.target}, schema={self.config.schema!r})"


def _open(config: DatabaseConfig, name: str, deadline: Deadline, *, listening: bool = False) -> Session:
    conninfo = config.conninfo(name, deadline, listening=listening)
    direct = listening or not config.pooled
    try:
        return open_session(conninfo, pooled=not direct, deadline=deadline, target=config.target)
    except DatabaseUnavailable as error:
        error.hint = error.hint or advice(config)
        raise


def _close_all(idle: list[tuple[float, Session]], owner: int) -> None:
    if os.getpid() == owner:
        for _, session in idle:
            session.close()


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
