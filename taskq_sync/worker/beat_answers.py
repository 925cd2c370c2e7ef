"""What the answers to beats mean for the attempts, whoever has sent the beats."""

from __future__ import annotations

import math

from taskq_sync.model import Beat
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.events import (
    CancelDelivered,
    CheckpointRefused,
    Events,
    LeaseDoubtful,
    LeaseWasLost,
)


class BeatAnswers:
    """Applies answers. Called by the thread of the heartbeat only."""

    def __init__(self, attempts: Attempts, events: Events) -> None:
        self._attempts = attempts
        self._events = events

    def apply(self, attempt: LiveAttempt, beat: Beat, sent_at: float, checkpoint: str | None) -> None:
        """Apply the answer to a beat sent at *sent_at* with this *checkpoint*."""
        if beat.state == "ok":
            attempt.renewed(sent_at)
            attempt.doubt_told = False
        elif beat.state == "busy":
            attempt.found_busy(sent_at)
        else:
            self._lost(attempt)
        attempt.heard_at = sent_at
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

    def tell_doubtful(self, now: float, *, certain: bool = True) -> float:
        """Report the attempts whose deadline has passed; return the instant of the next deadline.

        Unless that is *certain*, another process may have renewed them: then only those that it beats no more.
        """
        following = math.inf
        for attempt in self._attempts.held():
            if attempt.doubt_told or attempt.lost:
                continue
            at = attempt.deadline if certain else max(attempt.deadline, attempt.beaten_until)
            if at > now:
                following = min(following, at)
            else:
                attempt.doubt_told = True
                self._events.emit(LeaseDoubtful(job=attempt.job))
        return following

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
