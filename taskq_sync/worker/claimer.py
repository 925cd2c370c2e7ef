"""The claimer: takes jobs from the database, as many as the slots can use, and hands them over.

It also gives back the jobs that no slot has started in time, and sleeps when there is nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta

from taskq_sync.clock import monotonic
from taskq_sync.db.jobs import Jobs
from taskq_sync.errors import TaskQError
from taskq_sync.model import ClaimedJob
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.config import WorkerConfig
from taskq_sync.worker.events import Events, JobsClaimed, JobsHandedBack
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.link import Link
from taskq_sync.worker.pauses import Pauses
from taskq_sync.worker.prefetch import Prefetch
from taskq_sync.worker.rest import REGISTRATION, Rest
from taskq_sync.worker.settler import Settler
from taskq_sync.worker.slots import Slots
from taskq_sync.worker.threads import Event, Service
from taskq_sync.worker.turns import Turns
from taskq_sync.worker.verdicts import not_started
from taskq_sync.worker.waiting import Waiting

PART = "claimer"


class Claimer:
    """One thread. `wake` and `notify` may be called from any thread and only set events.

    A turn ends with the number of seconds after which the next one has something to do. Whoever changes what
    a turn looks at (a slot becomes free, a verdict is settled, the worker's state changes) wakes the thread
    after the change; the thread clears the event before it looks.
    """

    def __init__(
        self,
        *,
        name: str,
        config: WorkerConfig,
        link: Link,
        jobs: Jobs,
        slots: Slots,
        settler: Settler,
        attempts: Attempts,
        pauses: Pauses,
        lifecycle: Lifecycle,
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        self._config = config
        self._link = link
        self._jobs = jobs
        self._slots = slots
        self._settler = settler
        self._attempts = attempts
        self._pauses = pauses
        self._lifecycle = lifecycle
        self._events = events
        self._queues = tuple(config.queues)
        self._turns = Turns(config.queues, strict=config.strict)
        self._lease = None if config.lease is None else timedelta(seconds=config.lease)
        self._prefetch = Prefetch(config.slots)
        self._rest = Rest(config.poll_interval)
        self._waiting = Waiting()
        self._left = math.inf if config.max_jobs is None else config.max_jobs
        self._claims_in_a_row = 0
        self._found_nothing = False
        self._due_in: float | None = None
        self._wake = Event()
        self._notified = Event()
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread."""
        self._service.start()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread, which ends when the worker is stopping."""
        return self._service.join(timeout)

    def wake(self) -> None:
        """Something has changed: look whether more jobs are wanted."""
        if not self._wake.is_set():
            self._wake.set()

    def notify(self) -> None:
        """Something has become due in one of the queues: claim at once."""
        self._notified.set()
        self._wake.set()

    def listening(self, listening: bool) -> None:
        """Notifications arrive from now on, or no longer. A look follows, for what was missed before."""
        self._rest.listening = listening
        self.notify()

    def _run(self) -> None:
        try:
            while not self._lifecycle.stopping:
                self._hand_back(self._waiting.take_late(monotonic()), "no slot started them in time")
                seconds = self._turn()
                if seconds > 0:
                    self._sleep(seconds)
        finally:
            self._hand_back(self._waiting.take_all(), "the worker is stopping")
            self._link.close()

    def _sleep(self, seconds: float) -> None:
        seconds = min(seconds, self._waiting.late_at - monotonic())
        self._wake.wait(None if seconds == math.inf else max(0.0, seconds))
        self._wake.clear()

    def _turn(self) -> float:
        """Do what is to be done now; return the seconds until there is more, `math.inf` = until woken."""
        now = monotonic()
        if now < self._rest.until and not self._notified.is_set() and not self._drained():
            return self._rest.until - now
        try:
            return self._look(now) if self._lifecycle.may_claim else self._probe()
        except TaskQError as error:
            self._rest.failed(monotonic(), self._link.failed(error))
            return 0.0

    def _probe(self) -> float:
        """While the worker is not running: find out whether this part's link works again; claim nothing."""
        if not self._lifecycle.ails(PART):
            return math.inf
        self._notified.clear()
        self._hint()
        return 0.0

    def _look(self, now: float) -> float:
        room = self._room(now)
        if room == 0:
            return math.inf
        idle = self._idle()
        if self._rest.lying and not self._notified.is_set() and not self._hint():
            return 0.0
        found = self._claim(room)
        self._found_nothing = idle and not found
        if found == room:
            self._rest.over()
        elif found and self._rest.lying:
            self._rest.found_some(monotonic())
        elif self._hint():
            self._ready_again(found)
        elif self._config.burst and self._found_nothing and not self._due_soon():
            self._lifecycle.request_stop("nothing is due")
        return 0.0

    def _room(self, now: float) -> int:
        if self._left <= 0:
            if not self._slots.in_flight:
                self._lifecycle.request_stop(f"{self._config.max_jobs} jobs were run")
            return 0
        room = self._prefetch.room(in_flight=self._slots.in_flight, held=len(self._attempts), now=now)
        return int(min(room, self._left))

    def _drained(self) -> bool:
        """In a burst: the jobs that were under way at the last look are settled, so look what they left."""
        return self._config.burst and not self._found_nothing and self._idle()

    def _idle(self) -> bool:
        """Whether nothing is under way, but for threads that are stuck: nobody waits for those."""
        return len(self._attempts) <= self._slots.stuck

    def _due_soon(self) -> bool:
        """In a burst: whether the next job is due so soon that it is waited for."""
        return self._due_in is not None and self._due_in <= self._config.wait_for_delayed

    def _claim(self, room: int) -> int:
        """Claim up to *room* jobs, hand them over and return how many came."""
        self._notified.clear()
        queues = self._turns.next()
        sent_at = monotonic()
        jobs = self._link.call(
            lambda session: self._jobs.claim(session, queues, self._config.worker_id, room, self._lease)
        )
        now = monotonic()
        self._prefetch.claimed(finished=self._slots.ran, now=now)
        if jobs:
            self._pauses.claimed_from((job.queue for job in jobs), asked_at=sent_at)
            self._hand_over(jobs, sent_at, now)
            self._claims_in_a_row += 1
            if self._claims_in_a_row > 1 and self._rest.lying:
                self._get_up()
        if self._events.wanted(JobsClaimed):
            self._events.emit(JobsClaimed(count=len(jobs), seconds=now - sent_at))
        return len(jobs)

    def _hint(self) -> bool:
        """Return whether something is ready; if not, lie down until the next job is due."""
        queues = self._queues
        asked_at = monotonic()
        hints = self._link.call(lambda session: self._jobs.poll_hint(session, queues))
        self._pauses.update((hint.queue for hint in hints if hint.state == "paused"), asked_at=asked_at)
        if any(hint.state == "ready" for hint in hints):
            return True
        self._claims_in_a_row = 0
        if self._rest.must_register(monotonic()):
            self._link.call(
                lambda session: self._jobs.sleep_until(session, self._config.worker_id, queues, REGISTRATION)
            )
            self._rest.lay_down(monotonic())
        due_in = min((hint.due_in for hint in hints if hint.due_in is not None), default=None)
        self._due_in = None if due_in is None else due_in.total_seconds()
        self._rest.nothing_due(monotonic(), self._due_in)
        return False

    def _ready_again(self, found: int) -> None:
        if found:
            self._rest.over()
        else:
            self._rest.passed_over(monotonic())

    def _get_up(self) -> None:
        """Work keeps coming: producers need not notify a worker that looks again anyway."""
        self._link.call(lambda session: self._jobs.awake(session, self._config.worker_id))
        self._rest.got_up()

    def _hand_over(self, jobs: Sequence[ClaimedJob], sent_at: float, now: float) -> None:
        attempts = [LiveAttempt(job, sent_at=sent_at, beat=self._config.beat) for job in jobs]
        self._attempts.add(attempts)
        self._left -= len(attempts)
        unbuffered = [attempt for attempt in attempts if attempt.unbuffered]
        if unbuffered:
            attempts = self._first_the_unbuffered(attempts, unbuffered, now)
        self._waiting.add(attempts, now)
        self._slots.put(attempts, refill_before=self._prefetch.target // 2)

    def _first_the_unbuffered(
        self, attempts: Sequence[LiveAttempt], unbuffered: Sequence[LiveAttempt], now: float
    ) -> list[LiveAttempt]:
        """Return *attempts* with the *unbuffered* in front, one for each free slot; the rest of them go back."""
        free = max(0, len(self._slots) - self._slots.in_flight)
        surplus = unbuffered[free:]
        if surplus:
            self._prefetch.met_unbuffered(now)
            self._hand_back([attempt for attempt in surplus if attempt.take(Stage.ENDED)], "no slot is free")
        return [*unbuffered[:free], *(attempt for attempt in attempts if not attempt.unbuffered)]

    def _hand_back(self, attempts: Sequence[LiveAttempt], reason: str) -> None:
        if not attempts:
            return
        for attempt in attempts:
            self._settler.put(attempt, not_started(attempt.job))
        self._left += len(attempts)
        self._prefetch.overestimated()
        self._events.emit(JobsHandedBack(count=len(attempts), reason=reason))
