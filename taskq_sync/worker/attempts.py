"""The attempts a worker holds: what the slots, the settler and the heartbeat know of one another's work.

An attempt is held from its claim until the database has answered for its verdict. In between it is beaten,
so that nobody else takes the job.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol

from taskq_sync.clock import Deadline, monotonic
from taskq_sync.model import ClaimedJob
from taskq_sync.worker.lease import Leased, terms_of
from taskq_sync.worker.threads import Event, Lock

#: How long a handler waits for news of a lease that may be over, and how often it looks, in seconds.
NEWS_PATIENCE = 6.0
NEWS_LOOK = 0.01


class Stage(Enum):
    """How far an attempt has come in this process."""

    WAITING = "waiting"  # claimed, not started
    RUNNING = "running"  # in the hands of a slot
    SETTLING = "settling"  # its own transaction is completing it
    ENDED = "ended"  # nothing more happens here; its verdict is on the way or known


class LiveAttempt(Leased):
    """One claim of one job.

    Written by several threads without a lock: each field has one writer at a time, and a reader that sees the
    value of a moment ago is told again at its next look.

    ====================  ==========================================  ==========================
    field                 writer                                      reader
    ====================  ==========================================  ==========================
    deadline              the claimer, then the heartbeat             its handler, the heartbeat
    beat_at               the claimer, the heartbeat, its handler     the heartbeat
    beaten_until          its slot                                    the heartbeat
    heard_at              the claimer, the heartbeat                  the housekeeper
    cancel_requested      the heartbeat                               its handler
    lost                  the heartbeat, its own transaction          its handler, its slot
    commit_unknown        its own transaction                         its slot, the settler
    transaction_used      its own transaction                         its own transaction
    given_up              the main thread, while stopping             its slot
    doubt_told            the heartbeat                               the heartbeat
    stage                 whoever took it: its slot, or the claimer   the heartbeat
    started_at            its slot                                    its handler
    checkpoint            its handler                                 the heartbeat, its slot
    stored_checkpoint     the heartbeat                               the heartbeat, its slot
    flush                 its handler                                 the heartbeat
    ====================  ==========================================  ==========================
    """

    # Stand in the class until somebody writes them: most attempts end before anybody does. To set all of them for each
    # attempt made it a third dearer: 1.9 us against 1.4.
    stage = Stage.WAITING
    started_at = 0.0
    cancel_requested = False
    lost = False
    commit_unknown = False
    transaction_used = False
    given_up = False
    doubt_told = False
    checkpoint: str | None = None
    stored_checkpoint: str | None = None
    flush: Event | None = None
    beaten_until = math.inf

    def __init__(self, job: ClaimedJob, *, sent_at: float, beat: float | None = None) -> None:
        """Hold *job*, claimed by a call sent at the monotonic instant *sent_at*; *beat* if configured."""
        self.job = job
        self.heard_at = sent_at
        self._turn = Lock()
        super().__init__(job.job_id, job.attempt_id, terms_of(job.lease, beat), sent_at=sent_at)

    def take(self, stage: Stage = Stage.RUNNING) -> bool:
        """Put the attempt into *stage* and return True, unless somebody was quicker.

        A slot takes it to run it, the claimer to hand it back: exactly one of them gets True, ever. The lock
        is never waited for and never released.
        """
        if not self._turn.acquire(blocking=False):
            return False
        self.stage = stage
        return True

    @property
    def doubtful(self) -> bool:
        """Whether the lease may have run out. A later beat can heal that, unless the attempt is `lost`."""
        return self.lost or monotonic() >= self.deadline

    @property
    def unsent_checkpoint(self) -> str | None:
        """The newest checkpoint as JSON text, if the database does not have it yet."""
        return self.checkpoint if self.checkpoint is not self.stored_checkpoint else None

    @property
    def unbuffered(self) -> bool:
        """Whether the job must not wait behind others in this process.

        A keyed job would occupy its key meanwhile. A suspect, and a job on its last attempt, would lose one
        attempt when another job kills the process.
        """
        job = self.job
        return job.concurrency_key is not None or job.suspect or job.last_attempt


class Onlooker(Protocol):
    """Who must know what is held before any handler can keep the interpreter to itself.

    Called by the thread that changes the registry, after the change, without a lock.
    """

    def hold(self, attempts: Sequence[LiveAttempt]) -> None:
        """These are held from now on."""

    def drop(self, fences: Sequence[int]) -> None:
        """These are held no longer."""

    def limit(self, attempt: LiveAttempt) -> None:
        """Its `beaten_until` has changed."""


class Attempts:
    """The registry: fence -> attempt.

    `_lock` guards the table and the planned instant of the next beat. The claimer adds, the settler and the
    slots remove, the heartbeat reads; each holds it for one operation on the table, never while calling
    anything. `beat_wanted` is set by whoever makes a beat due earlier than planned; the heartbeat waits on
    it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: dict[int, LiveAttempt] = {}
        self._next_beat = math.inf
        self.beat_wanted = Event()
        self._onlooker: Onlooker | None = None
        self._grace = 0.0

    def show(self, onlooker: Onlooker, *, grace: float) -> None:
        """Tell *onlooker* of every change; to be called before the worker starts. *grace* is in seconds."""
        self._onlooker = onlooker
        self._grace = grace

    def __len__(self) -> int:
        return len(self._held)

    def add(self, attempts: Sequence[LiveAttempt]) -> None:
        """Hold *attempts* from now on."""
        earliest = min((each.beat_at for each in attempts), default=math.inf)
        with self._lock:
            self._held.update((each.fence, each) for each in attempts)
            sooner = earliest < self._next_beat
            if sooner:
                self._next_beat = earliest
        if sooner:
            self.beat_wanted.set()
        if self._onlooker is not None:
            self._onlooker.hold(attempts)

    def limit(self, attempt: LiveAttempt, at: float) -> None:
        """The time of *attempt* is up at this monotonic instant; `math.inf` = never.

        Where somebody looks on, it is beaten until a grace later and no longer.
        """
        if self._onlooker is None:
            return
        until = at + self._grace
        if attempt.beaten_until != until:
            attempt.beaten_until = until
            self._onlooker.limit(attempt)
            if until == math.inf:  # its beat may have been due for some time
                self.beat_wanted.set()

    def in_doubt(self, attempt: LiveAttempt) -> bool:
        """Whether the lease of *attempt* may have run out; to be asked by its handler.

        A handler that has kept the interpreter to itself is the first to go on: what came meanwhile is not read yet.
        Where another process beats, wait a little for its news.
        """
        if self._onlooker is not None and attempt.doubtful:
            self.beat_wanted.set()
            patience = Deadline.after(NEWS_PATIENCE)
            while attempt.doubtful and not (attempt.lost or attempt.doubt_told or patience.expired):
                time.sleep(NEWS_LOOK)
        return attempt.doubtful

    def get(self, fence: int) -> LiveAttempt | None:
        """Return the attempt with this *fence* if it is held."""
        return self._held.get(fence)

    def remove(self, fences: Iterable[int]) -> None:
        """Hold these no longer; unknown ones are ignored."""
        fences = list(fences)
        pop = self._held.pop
        with self._lock:
            for fence in fences:
                pop(fence, None)
        if self._onlooker is not None:
            self._onlooker.drop(fences)

    def unheard(self) -> bool:
        """Whether the lease of an attempt may be over, and no beat since then has brought word of it."""
        now = monotonic()
        return any(
            each.heard_at < each.deadline <= now and not each.lost and each.beat_at < math.inf
            for each in self.held()
        )

    def held(self) -> list[LiveAttempt]:
        """Return all attempts, oldest first."""
        with self._lock:
            return list(self._held.values())

    def plan_beat(self) -> float:
        """Return the monotonic instant at which the next beat is due, `math.inf` when nothing is held.

        Until the next call, whoever adds an attempt that needs an earlier one sets `beat_wanted`.
        """
        now = monotonic()
        with self._lock:
            self._next_beat = min(
                (each.beat_at for each in self._held.values() if now < each.beaten_until), default=math.inf
            )
            return self._next_beat
