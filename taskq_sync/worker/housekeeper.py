"""The housekeeper: takes back what dead workers left, ends and deletes what has had its time, shows presence.

Every worker runs one, for all queues and all workers; the passes exclude one another in the database.
Whatever fails here is tried again at its next time and keeps nobody from running jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define

from taskq_sync.backoff import JITTER
from taskq_sync.clock import Deadline, monotonic
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.session import Session
from taskq_sync.errors import TaskQError
from taskq_sync.worker.attempts import Attempts
from taskq_sync.worker.config import DEFAULT_LEASE, WorkerConfig
from taskq_sync.worker.events import ChoreFailing, Events, Housekept
from taskq_sync.worker.lease import beat_of
from taskq_sync.worker.link import LONGEST_PAUSE, Link
from taskq_sync.worker.presence import Presence
from taskq_sync.worker.recycling import Recycling
from taskq_sync.worker.threads import Event, Service

#: Rows that one pass handles; a pass that was full is followed by another at once.
PASS_LIMIT = 1000

#: After an outage a heartbeat finds the database again within so many seconds: the longest pause of a link, and a call.
FOUND_AGAIN = LONGEST_PAUSE * (1 + JITTER) + 0.5

#: While own leases may be over, and no beat has said whether they are, nothing is taken back for so many seconds.
OWN_FIRST = 30.0

#: How many times seldomer jobs are raised than they are pruned: an idle worker is to be a quiet one.
AGE_EVERY = 2

#: A chore that fails so many times in a row is reported; a single failure may be a restart of the server.
FAILURES_REPORTED = 2


@define
class Chore:
    """Something done every *every* seconds; *do* returns how many rows it moved."""

    name: str
    every: float
    do: Callable[[Session], int]
    due_at: float = 0.0
    failures: int = 0


class Housekeeper:
    """One thread; the chores belong to it. `hurry` and `stop` only set an event."""

    def __init__(
        self,
        *,
        name: str,
        config: WorkerConfig,
        link: Link,
        jobs: Jobs,
        attempts: Attempts,
        presence: Presence,
        recycling: Recycling,
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        self._link = link
        self._jobs = jobs
        self._attempts = attempts
        self._presence = presence
        self._recycling = recycling
        self._events = events
        # After an outage the owners come first: whoever is alive beats once before anybody takes back.
        self._grace = config.beat or beat_of(config.lease or DEFAULT_LEASE)
        self._own_first = Deadline.never()
        self._announce = Chore("announce", config.announce_every, presence.announce)
        self._chores = [
            self._announce,
            Chore("take back", config.take_back_every, self._take_back),
            Chore("expire", config.prune_every, lambda session: jobs.expire_ttl(session, PASS_LIMIT)),
            Chore("age", AGE_EVERY * config.prune_every, lambda session: jobs.age(session, PASS_LIMIT)),
            Chore("prune", config.prune_every, lambda session: jobs.prune(session, PASS_LIMIT)),
        ]
        self._wake = Event()
        self._taken_back: tuple[int, ...] = ()  # by the pass that is being performed
        self._ending = False
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread; the first announcement has been made by whoever starts it."""
        self._announce.due_at = monotonic() + self._announce.every
        self._service.start()

    def hurry(self) -> None:
        """The state of the worker has changed, or somebody calls it: announce it now."""
        self._announce.due_at = 0.0
        self._wake.set()

    def stop(self) -> None:
        """Leave the list of workers, and end. Does not block; may be called twice, and before `start`."""
        self._ending = True
        self._wake.set()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        return self._service.join(timeout)

    def _run(self) -> None:
        try:
            while not self._ending:
                self._run_once()
                self._wake.wait(max(0.0, min(chore.due_at for chore in self._chores) - monotonic()))
                self._wake.clear()
            self._perform(Chore("leave", math.inf, self._presence.leave))
        finally:
            self._link.close()

    def _run_once(self) -> None:
        self._recycling.look()  # also while the database is away
        for chore in self._chores:
            if not self._ending and chore.due_at <= monotonic():
                self._perform(chore)

    def _perform(self, chore: Chore) -> None:
        chore.due_at = monotonic() + chore.every
        self._taken_back = ()
        try:
            moved = self._link.call(chore.do)
        except TaskQError as error:
            chore.failures += 1
            if chore.failures == FAILURES_REPORTED:
                self._events.emit(ChoreFailing(chore=chore.name, error=str(error)))
            return
        if chore.failures >= FAILURES_REPORTED:
            self._events.emit(ChoreFailing(chore=chore.name, error=None))
        chore.failures = 0
        if moved:
            self._events.emit(Housekept(chore=chore.name, count=moved, job_ids=self._taken_back))
        if moved >= PASS_LIMIT:
            chore.due_at = 0.0

    def _take_back(self, session: Session) -> int:
        grace = self._grace if self._link.connections == 1 else max(self._grace, FOUND_AGAIN)
        if monotonic() < self._link.connected_at + grace or self._own_come_first():
            return 0
        self._taken_back = tuple(each.job_id for each in self._jobs.take_back(session, PASS_LIMIT))
        return len(self._taken_back)

    def _own_come_first(self) -> bool:
        """Whether this worker has still to hear of its own attempts, after an outage or a sleep of the machine.

        Its heartbeat may find the database later than this thread does. There is a limit: what the others have left
        must not wait for ever for one connection of this worker.
        """
        if not self._attempts.unheard():
            self._own_first = Deadline.never()
            return False
        if self._own_first.timeout is None:
            self._own_first = Deadline.after(OWN_FIRST)
        return not self._own_first.expired
