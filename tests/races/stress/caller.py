"""What every session of a stress run does: call the contract in transactions, and write down the answers.

What a session must not do is what the documentation forbids: two transactions that take two unique keys, or settle
two attempts, crosswise in separate calls deadlock. So a transaction asks for unique keys in one call at most; one that
enqueues before it completes asks for none that the start of a job gives up; and ordered jobs come by single statements.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from attrs import frozen
from psycopg.rows import namedtuple_row

from .ledger import Answer, Attempt, Deed, Ledger, Record, now

QUEUES = ("q0", "q1", "q2", "q3")
#: Those that are paused now and then.
PAUSED = ("q2", "q3")
#: Busy keys whose limit stays, and some whose limit changes all the time.
BUSY = {"one": 1, "two": 2, "three": 3}
CHANGING = ("changing", "closing")
#: Keys whose jobs come in a burst: when one gets stuck, no other job of it comes soon to set it free.
QUIET = {f"quiet {number}": 1 for number in range(200)}
FIXED_LIMITS = {**BUSY, **QUIET}
#: Keys whose jobs run one after the other.
ORDERED = ("o1", "o2")
#: Unique keys that count while their job is live, and those that only wait for its start, at times.
LIVE_KEYS = tuple(f"u{number}" for number in range(20))
WAITING_KEYS = tuple(f"w{number}" for number in range(10))


@frozen(kw_only=True)
class Mix:
    """What the sessions are to do: keep about *live* jobs live, enqueue up to *rows* in one call.

    Of the jobs, *unique* of 1 have a unique key.
    """

    live: int = 300
    rows: int = 15
    unique: float = 0.3


@frozen
class Toggles:
    """Held while a queue is paused or resumed, or a limit changed, so that the order of the changes is known."""

    locks: dict[str, threading.Lock]

    @classmethod
    def make(cls) -> Toggles:
        return cls({name: threading.Lock() for name in (*PAUSED, *CHANGING)})


class Open:
    """A transaction or a single statement of a session, and the records it makes."""

    def __init__(self, conn: psycopg.Connection[Any], ledger: Ledger, *, single: bool) -> None:
        self.deed = Deed()
        self.records: list[Record] = []
        self._cursor = conn.cursor(row_factory=namedtuple_row)
        self._ledger = ledger
        self._single = single
        self._asked = 0.0
        self._answered = 0.0

    def ask(self, statement: str, **parameters: Any) -> list[Any]:
        """Run one statement and return its rows."""
        self._asked = now()
        if self._single:
            self.deed.decided = self._asked
        rows = self._cursor.execute(statement.encode(), parameters).fetchall()
        self._answered = now()
        self._ledger.count("calls")
        return rows

    def note(self, kind: Callable[..., Record], **fields: Any) -> Record:
        """Make a record of what the last statement answered."""
        record = kind(asked=self._asked, answered=self._answered, deed=self.deed, **fields)
        self.records.append(record)
        return record


class Caller:
    """A session: its connection, its choices, and the ledger it shares with the others."""

    def __init__(
        self,
        conn: psycopg.Connection[Any],
        ledger: Ledger,
        toggles: Toggles,
        stop: threading.Event,
        *,
        seed: str,
        mix: Mix,
    ) -> None:
        self._conn = conn
        self._ledger = ledger
        self._toggles = toggles
        self._stop = stop
        self._mix = mix
        self.chance = random.Random(seed)
        self.verb = "nothing yet"

    @contextmanager
    def single(self) -> Iterator[Open]:
        """One statement that commits by itself."""
        made = Open(self._conn, self._ledger, single=True)
        yield made
        made.deed.known = now()
        self._ledger.write(made.records)

    @contextmanager
    def transaction(self) -> Iterator[Open]:
        """A transaction that stays open for a while, and rolls back one time in three."""
        made = Open(self._conn, self._ledger, single=False)
        rolls_back = self.chance.random() < 1 / 3
        with self._conn.transaction(force_rollback=rolls_back):
            yield made
            self.linger()
            made.deed.decided = now()
        made.deed.known = now()
        (self._ledger.undo if rolls_back else self._ledger.write)(made.records)
        if rolls_back:
            self._ledger.put_back(self._picked_by(made))

    def _picked_by(self, made: Open) -> list[Attempt]:
        fences = {each.attempt_id for each in made.records if isinstance(each, Answer)}
        return [self._ledger.attempts[each] for each in fences if each in self._ledger.attempts]

    def linger(self) -> None:
        """Keep the transaction open, as a slow caller would; no test waits for anything here."""
        if self.chance.random() < 0.7:
            self._stop.wait(self.chance.random() ** 3 * 0.1)
