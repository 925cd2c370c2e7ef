"""The arithmetic of a lease: when it is to be renewed, and until when its holder relies on it."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

from attrs import frozen

#: The beat of a long lease, in seconds; a shorter lease is beaten three times in its length.
LONGEST_BEAT = 30.0

#: What is taken off a lease for the local deadline: a share of it, and at least so many seconds.
MARGIN_SHARE = 0.1
MARGIN_FLOOR = 0.05

#: An attempt whose row was locked is asked about again after a share of its lease, at most so many seconds.
BUSY_SHARE = 0.1
BUSY_PAUSE = 1.0


def beat_of(lease: float, configured: float | None = None) -> float:
    """Return the seconds between two beats for a lease of so many seconds.

    A *configured* beat counts where it is below half of the lease; above that one late beat would cost the
    lease.
    """
    if configured is not None and configured < lease / 2:
        return configured
    return min(lease / 3, LONGEST_BEAT)


@frozen
class Terms:
    """What a lease means for its holder, in seconds; computed once for each length."""

    lease: float
    """How long the database waits."""

    beat: float
    """How long the holder waits before it renews."""

    trusted: float
    """How long after the sending of the call that granted or renewed it the holder relies on it. The database counts
    from a moment later, so its lease ends later in any case."""


@lru_cache(maxsize=1024)
def terms_of(lease: timedelta, configured_beat: float | None = None) -> Terms:
    """Return the terms of a *lease*."""
    seconds = lease.total_seconds()
    margin = max(seconds * MARGIN_SHARE, MARGIN_FLOOR)
    return Terms(seconds, beat_of(seconds, configured_beat), seconds - margin)


class Leased:
    """An attempt as far as its lease goes: which one, until when it is relied on, when the next beat is due."""

    __slots__ = ("beat_at", "deadline", "fence", "job_id", "terms")

    def __init__(self, job_id: int, fence: int, terms: Terms, *, sent_at: float) -> None:
        """The lease was granted by a call sent at the monotonic instant *sent_at*."""
        self.job_id = job_id
        self.fence = fence
        self.terms = terms
        self.renewed(sent_at)

    def renewed(self, sent_at: float) -> None:
        """Count the lease from *sent_at*, when the call that renewed it was sent."""
        self.deadline = sent_at + self.terms.trusted
        self.beat_at = sent_at + self.terms.beat

    def found_busy(self, sent_at: float) -> None:
        """The row was locked when the call of *sent_at* came: ask again soon."""
        self.beat_at = sent_at + min(BUSY_PAUSE, BUSY_SHARE * self.terms.lease)
