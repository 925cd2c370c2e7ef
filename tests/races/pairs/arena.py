"""Two sessions in a database of their own, in which calls meet, or come one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext

import psycopg
from attrs import frozen
from psycopg.pq import TransactionStatus

from kit.contract import Contract, Row, own_clocks
from kit.databases import Databases, clear
from races.pairs.outcome import State, outcome
from races.pairs.stages import STAGES, Subject
from races.pairs.verbs import VERBS, Verb
from races.sessions import Session

#: Runs between two thorough clearings: what is dead slows everything down.
_RUNS = 300


@frozen(kw_only=True)
class Meeting:
    """Whether the second call waited for the first, what both were answered, what was stored, and a second chance.

    *again* makes the second call once more and returns what it is answered and what is stored then.
    """

    waited: bool
    first: list[Row]
    second: list[Row]
    state: State
    again: Callable[[], tuple[list[Row], State]]


class Arena:
    """Lets calls meet at a stage; remembers what they lead to one after the other."""

    def __init__(self, author: Contract, one: Session, two: Session) -> None:
        self._author = author
        self._one = one
        self._two = two
        self._known: dict[tuple[str, ...], Row] = {}
        self._made: tuple[str, Subject] | None = None
        self._runs = 0

    @classmethod
    @contextmanager
    def opened(cls, databases: Databases) -> Iterator[Arena]:
        """Lend an arena; its thread is there from the beginning to the end."""
        with databases.copy() as dsn, ExitStack() as stack:
            threads = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="arena"))
            threads.submit(str).result()

            def connected() -> psycopg.Connection[Row]:
                conn = stack.enter_context(psycopg.connect(dsn, autocommit=True))
                conn.execute("set statement_timeout = '20s'")
                return conn

            author = Contract(connected())
            own_clocks(author.conn)
            yield cls(
                author,
                Session(connected(), databases.admin, threads),
                Session(connected(), databases.admin, threads),
            )

    @contextmanager
    def meeting(self, stage: str, first: str, second: str, *, rolls_back: bool) -> Iterator[Meeting]:
        """Make both calls at once, the first in a transaction that ends when the second is under way.

        Where the first rolls back, so does the second when all has been looked at: the stage is as it was.
        """
        subject = self._at(stage)
        opening, following = VERBS[first], VERBS[second]
        self._one.ahead_by(opening.ahead)
        self._two.ahead_by(following.ahead)
        with ExitStack() as stack:
            if rolls_back:
                stack.enter_context(self._two.transaction(rolls_back=True))
            else:
                self._made = None
            with self._one.transaction(rolls_back=rolls_back):
                answer = opening.call(self._one, subject)
                call, waited = self._two.begin(
                    lambda: _answer(following, self._two, subject), behind=self._one
                )
            yield Meeting(
                waited=waited,
                first=answer,
                second=call.result(),
                state=State.of(self._two),
                again=lambda: (_answer(following, self._two, subject), State.of(self._two)),
            )

    def one_by_one(self, stage: str, *verbs: str) -> Row:
        """Return the outcome of calls that come one after the other."""
        known = self._known.get((stage, *verbs))
        if known is None:
            subject = self._at(stage)
            answers = []
            with self._one.transaction(rolls_back=True):
                for verb in verbs:
                    self._one.run("select set_config('tests.ahead', %s, true)", VERBS[verb].ahead)
                    answers.append(_answer(VERBS[verb], self._one, subject))
                known = outcome(State.of(self._one), *answers)
            self._known[(stage, *verbs)] = known
        return known

    def _at(self, stage: str) -> Subject:
        """Return the job of *stage* in a database that has nothing else."""
        self._runs += 1
        if self._runs % _RUNS == 0:
            clear(self._author.conn)
            self._made = None
        if self._made is None or self._made[0] != stage:
            self._author.run(_EMPTY)
            self._made = stage, STAGES[stage](self._author)
        return self._made[1]


def _answer(verb: Verb, session: Session, subject: Subject) -> list[Row]:
    """Call, and return the rows, or the SQLSTATE by which the call is refused."""
    in_transaction = session.conn.info.transaction_status != TransactionStatus.IDLE
    try:
        with session.transaction() if in_transaction else nullcontext():
            return verb.call(session, subject)
    except psycopg.Error as error:
        if error.sqlstate is None or not error.sqlstate.startswith("TQ"):
            raise
        return [{"refused": error.sqlstate}]


_EMPTY = "with {} select".format(
    ", ".join(
        f"{table} as (delete from taskq.{table})"
        for table in (
            "jobs",
            "ready",
            "running",
            "finished",
            "attempts",
            "unique_keys",
            "signals",
            "queues",
            "concurrency_limits",
            "passes",
            "audit",
        )
    )
)
