"""What the sessions of a stress run asked and were told, for `verdict.py` to judge when they have ended.

Every record knows the deed (the transaction) it was part of. Nothing of a deed that rolled back counts, and a deed is
written into the ledger only when its commit has been answered, so a record may stand there later than its effect.
Instants are those of one monotonic clock, since all sessions are threads of one process:

- *asked*, *answered*: before the statement was sent, after its answer had come
- *decided*, *known*: before the commit was sent, after its answer had come; the effect becomes visible in between
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable

from attrs import define, field, frozen

#: Answers of a settle, or of a take-back, that ended the attempt.
ENDED = ("ok", "retry_scheduled", "dead")
#: Where a job ends.
TERMINAL = ("succeeded", "failed", "cancelled")

now = time.monotonic


@define(eq=False)
class Deed:
    """One transaction of a session; of a single statement, *decided* is *asked*."""

    decided: float = 0.0
    known: float = float("inf")


@frozen(kw_only=True, eq=False)
class Record:
    asked: float
    answered: float
    deed: Deed


@frozen(kw_only=True, eq=False)
class Enqueued(Record):
    job_id: int
    status: str
    queue: str
    unique_key: str | None = None
    unique_mode: str = "keep"
    unique_for: float = 0.0


@frozen(kw_only=True, eq=False)
class Attempt(Record):
    """One row of a claim; *batch* is the same for all rows of one claim."""

    batch: int
    job_id: int
    attempt_id: int
    queue: str
    key: str | None
    attempt_count: int
    failure_count: int
    max_attempts: int
    expiry_streak: int


@frozen(kw_only=True, eq=False)
class Answer(Record):
    """One row of a settle in any form, or of a take-back, whose verb is `take_back`.

    *leaves_no_row* of a prefetched job handed back; *spoilt* of an element that must be rejected.
    """

    job_id: int
    attempt_id: int
    verb: str
    result: str
    status: str | None
    retryable: bool = True
    leaves_no_row: bool = False
    spoilt: bool = False

    @property
    def ended(self) -> bool:
        return self.result in ENDED


@frozen(kw_only=True, eq=False)
class Cancel(Record):
    job_id: int
    result: str
    status: str


@frozen(kw_only=True, eq=False)
class Redrive(Record):
    job_id: int
    result: str
    status: str


@frozen(kw_only=True, eq=False)
class Limit(Record):
    key: str
    max_running: int


@frozen(kw_only=True, eq=False)
class Pause(Record):
    queue: str
    paused: bool


@frozen(kw_only=True, eq=False)
class Look(Record):
    """What a beat or `attempt_state` said of an attempt; *asked_to_cancel* only of a beat."""

    function: str
    job_id: int
    attempt_id: int
    state: str
    status: str | None = None
    asked_to_cancel: bool | None = None


@frozen(kw_only=True, eq=False)
class Pruned(Record):
    jobs: int


@frozen(kw_only=True, eq=False)
class Worked(Record):
    """A handler's transaction that left a row of work and completed its attempt."""

    attempt_id: int


@define(eq=False)
class Ledger:
    """The records of all sessions, and the attempts that a session may pick from. One lock guards all of it."""

    enqueued: list[Enqueued] = field(factory=list)
    attempts: dict[int, Attempt] = field(factory=dict)
    answers: defaultdict[int, list[Answer]] = field(factory=lambda: defaultdict(list))
    cancels: defaultdict[int, list[Cancel]] = field(factory=lambda: defaultdict(list))
    redriven: set[int] = field(factory=set)
    limits: defaultdict[str, list[Limit]] = field(factory=lambda: defaultdict(list))
    pauses: defaultdict[str, list[Pause]] = field(factory=lambda: defaultdict(list))
    looks: list[Look] = field(factory=list)
    pruned: list[Pruned] = field(factory=list)
    worked: list[Worked] = field(factory=list)
    undone_jobs: set[int] = field(factory=set)
    undone_attempts: set[int] = field(factory=set)
    figures: Counter[str] = field(factory=Counter)
    live: int = 0
    _open: dict[int, Attempt] = field(factory=dict)
    _stale: deque[Attempt] = field(factory=lambda: deque(maxlen=300))
    _jobs: deque[int] = field(factory=lambda: deque(maxlen=400))
    _lock: threading.Lock = field(factory=threading.Lock)

    def write(self, records: Iterable[Record]) -> None:
        """Enter the records of a deed that has committed."""
        with self._lock:
            for record in records:
                self._enter(record)

    def undo(self, records: Iterable[Record]) -> None:
        """Remember what a deed that rolled back made, so that none of it may ever be seen."""
        with self._lock:
            for record in records:
                if isinstance(record, Attempt):
                    self.undone_attempts.add(record.attempt_id)
                    self._stale.append(record)
                elif isinstance(record, Enqueued) and record.status == "created":
                    self.undone_jobs.add(record.job_id)
            self.figures["transactions rolled back"] += 1

    def count(self, figure: str, amount: int = 1) -> None:
        with self._lock:
            self.figures[figure] += amount

    def expired(self, jobs: int) -> None:
        """Note how many jobs a pass of expire_ttl ended; it does not say which."""
        with self._lock:
            self.live -= jobs
            self.figures["jobs expired"] += jobs

    def pick(self, chance: random.Random, most: int, *, keep: bool = False) -> list[Attempt]:
        """Return attempts that may be running, none twice; *keep* leaves them for other sessions to pick."""
        with self._lock:
            picked = chance.sample(list(self._open.values()), min(most, len(self._open)))
            if not keep:
                for attempt in picked:
                    del self._open[attempt.attempt_id]
        return picked

    def put_back(self, attempts: Iterable[Attempt]) -> None:
        """Leave attempts to other sessions after a deed that rolled back."""
        with self._lock:
            self._open.update({each.attempt_id: each for each in attempts})

    def pick_stale(self, chance: random.Random, most: int) -> list[Attempt]:
        """Return attempts that have ended, or never were."""
        with self._lock:
            return chance.sample(list(self._stale), min(most, len(self._stale)))

    def pick_job(self, chance: random.Random) -> int | None:
        """Return one of the latest jobs, or of those that may be running."""
        with self._lock:
            running = [each.job_id for each in self._open.values()]
            jobs = running if chance.random() < 0.5 else self._jobs
            return chance.choice(jobs) if jobs else None

    def _enter(self, record: Record) -> None:
        if isinstance(record, Enqueued):
            self.enqueued.append(record)
            self.figures[f"enqueued: {record.status}"] += 1
            if record.status == "created":
                self._jobs.append(record.job_id)
                self.live += 1
        elif isinstance(record, Attempt):
            self.attempts[record.attempt_id] = record
            self._open[record.attempt_id] = record
            self.figures["claims" if record.key is None else "claims with a key"] += 1
        elif isinstance(record, Answer):
            self._enter_answer(record)
        elif isinstance(record, Cancel):
            self.cancels[record.job_id].append(record)
            self.figures[f"cancel_job: {record.result}"] += 1
            self.live -= record.result == "cancelled"
        elif isinstance(record, Redrive):
            self.figures[f"redrive: {record.result}"] += 1
            if record.result == "redriven":
                self.redriven.add(record.job_id)
                self.live += 1
        elif isinstance(record, Limit):
            self.limits[record.key].append(record)
        elif isinstance(record, Pause):
            self.pauses[record.queue].append(record)
        elif isinstance(record, Look):
            self.looks.append(record)
            self.figures[f"{record.function}: {record.state}"] += 1
        elif isinstance(record, Pruned):
            self.pruned.append(record)
            self.figures["jobs pruned"] += record.jobs
        elif isinstance(record, Worked):
            self.worked.append(record)
            self.figures["handler transactions"] += 1

    def _enter_answer(self, answer: Answer) -> None:
        self.answers[answer.attempt_id].append(answer)
        self.figures[f"{answer.verb}: {answer.result} {answer.status or ''}".rstrip()] += 1
        if answer.ended:
            ended = self._open.pop(answer.attempt_id, None) or self.attempts.get(answer.attempt_id)
            if ended is not None:
                self._stale.append(ended)
            self.live -= answer.status in TERMINAL
