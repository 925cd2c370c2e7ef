"""A session whose transaction may stay open, and what it will have done once that commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from kit.contract import Connection, Contract, Row
from properties.book import Book

#: A call that waits for an open transaction of another session is given up after this.
_PATIENCE = "20ms"


class Actor(Contract):
    """The functions of the schema through one session; each call belongs to its transaction."""

    def __init__(self, conn: Connection, name: str) -> None:
        super().__init__(conn)
        self.name = name
        self.is_open = False
        self.notes: list[Callable[[Book], None]] = []
        self.run("set statement_timeout = '20s'")

    def attempt(self, function: str, *, waits: bool, **arguments: Any) -> list[Row] | None:
        """Call *function*; None if it would have to wait for another session, which only some may."""
        if not self.is_open:
            self.run("begin")
            self.is_open = True
        # commits that notify wait for each other, in all databases of the server
        self.run(f"savepoint call; set local lock_timeout = '{_PATIENCE if waits else '10s'}'")
        try:
            answer: list[Row] = getattr(self, function)(**arguments)
        except psycopg.errors.LockNotAvailable:
            assert waits, f"{function} waits for a lock"
            self.run("rollback to call")
            return None
        self.run("release call; set local lock_timeout = '10s'")
        return answer

    def note(self, fact: Callable[[Book], None]) -> None:
        """Write *fact* down when the transaction commits."""
        self.notes.append(fact)

    def end(self, book: Book, *, commits: bool) -> None:
        """End the transaction, if one is open."""
        if self.is_open:
            self.is_open = False
            self.run("commit" if commits else "rollback")
            for fact in self.notes if commits else ():
                fact(book)
        self.notes.clear()
