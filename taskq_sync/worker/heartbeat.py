"""The heartbeat: keeps what this worker holds, and hears what the database has to say about it.

One call renews all attempts, whether their handler runs, waits for a slot, or has ended with a verdict that
is still on its way. It carries checkpoints there and brings requests to cancel back. The connection is its
own: no handler and no other part can keep a beat from being sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from taskq_sync.clock import monotonic
from taskq_sync.db.jobs import Jobs
from taskq_sync.errors import TaskQError
from taskq_sync.model import Beat
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.events import (
    CancelDelivered,
    CheckpointRefused,
    Events,
    LeaseDoubtful,
    LeaseWasLost,
)
from taskq_sync.worker.link import CALL_TIMEOUT, Link
from taskq_sync.worker.threads import Service

#: An attempt whose row was locked is asked about again after a share of its lease, at most so many seconds.
BUSY_SHARE = 0.1
BUSY_PAUSE = 1.0

#: A beat call may take as long as the shortest time between two beats, but at least so many seconds.
SHORTEST_TIMEOUT = 0.5


class Heartbeat:
    """One thread, which sleeps until the next beat is due and does nothing while no attempt is held."""

    def __init__(
        self,
        *,
        name: str,
        worker_id: str,
        link: Link,
        jobs: Jobs,
        attempts: Attempts,
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        self._worker_id = worker_id
        self._link = link
        self._jobs = jobs
        self._attempts = attempts
        self._events = events
        self._failing = False
        self._not_before = 0.0
        self._ending = False
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread."""
        self._service.start()

    def stop(self) -> None:
        """End after the beat that is under way. Does not block; may be called twice, and before `start`."""
        self._ending = True
        self._attempts.beat_wanted.set()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        return self._service.join(timeout)

    def _run(self) -> None:
        wanted = self._attempts.beat_wanted
        self._connect_early()
        try:
            while not self._ending:
                seconds = self._until_next()
                if seconds > 0:
                    wanted.wait(None if seconds == math.inf else seconds)
                    wanted.clear()
                elif not self._failing or monotonic() >= self._not_before:
                    self._beat()
        finally:
            self._link.close()

    def _connect_early(self) -> None:
        """Have the connection before handlers can use up what the server has to give."""
        try:
            self._link.call(lambda session: None)
        except TaskQError as error:
            self._failed(error)

    def _until_next(self) -> float:
        """Return the seconds until something is to be done: a beat, or telling a handler of its deadline."""
        now = monotonic()
        due = self._attempts.plan_beat()
        if self._failing:
            # Also when nothing is held: the worker claims nothing until this part has found the database again.
            due = min(self._not_before, self._tell_doubtful(now))
        return max(0.0, due - now)

    def _beat(self) -> None:
        held = [attempt for attempt in self._attempts.held() if not attempt.lost]
        checkpoints = {
            attempt.fence: text for attempt in held if (text := attempt.unsent_checkpoint) is not None
        }
        sent_at = monotonic()
        try:
            beats = self._send(held, checkpoints)
        except TaskQError as error:
            self._failed(error)
            return
        self._failing = False
        for attempt, beat in zip(held, beats, strict=True):
            self._apply(attempt, beat, sent_at, checkpoints.get(attempt.fence))
        self._tell_doubtful(monotonic())

    def _failed(self, error: TaskQError) -> None:
        self._not_before = monotonic() + self._link.failed(error)
        self._failing = True

    def _send(self, held: Sequence[LiveAttempt], checkpoints: dict[int, str]) -> Sequence[Beat]:
        pairs = [(attempt.job.job_id, attempt.fence) for attempt in held]
        progress = {
            attempt.job.job_id: checkpoints[attempt.fence] for attempt in held if attempt.fence in checkpoints
        }
        shortest = min((attempt.terms.beat for attempt in held), default=CALL_TIMEOUT)
        return self._link.call(
            lambda session: self._jobs.heartbeat(session, self._worker_id, pairs, progress=progress),
            timeout=max(SHORTEST_TIMEOUT, min(shortest, CALL_TIMEOUT)),
        )

    def _apply(self, attempt: LiveAttempt, beat: Beat, sent_at: float, checkpoint: str | None) -> None:
        if beat.state == "ok":
            attempt.renewed(sent_at)
        elif beat.state == "busy":
            attempt.beat_at = sent_at + min(BUSY_PAUSE, BUSY_SHARE * attempt.terms.lease)
        else:
            self._lost(attempt)
        if beat.cancel_requested and not attempt.cancel_requested:
            attempt.cancel_requested = True
            self._events.emit(CancelDelivered(job=attempt.job))
        if checkpoint is not None and beat.progress_stored is not None and beat.state == "ok":
            attempt.stored_checkpoint = checkpoint
            if not beat.progress_stored:
                self._events.emit(CheckpointRefused(job=attempt.job))
        flush = attempt.flush
        if flush is not None and (attempt.lost or attempt.unsent_checkpoint is None):
            flush.set()

    def _lost(self, attempt: LiveAttempt) -> None:
        """The database has no running row with this fence.

        Of an attempt that has ended here, or is completing itself, that is no news: it was settled while the
        beat was under way.
        """
        if attempt.take(Stage.ENDED):
            self._attempts.remove([attempt.fence])  # nobody has started it, and now nobody will
        elif attempt.stage is not Stage.RUNNING:
            attempt.beat_at = math.inf
            return
        attempt.lost = True
        attempt.beat_at = math.inf
        self._events.emit(LeaseWasLost(job=attempt.job))

    def _tell_doubtful(self, now: float) -> float:
        """Report the attempts whose deadline has passed; return the instant of the next deadline."""
        following = math.inf
        for attempt in self._attempts.held():
            if attempt.doubt_told or attempt.lost:
                continue
            if attempt.deadline > now:
                following = min(following, attempt.deadline)
            else:
                attempt.doubt_told = True
                self._events.emit(LeaseDoubtful(job=attempt.job))
        return following
