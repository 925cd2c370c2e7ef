"""What a worker and the child process that beats for it say to each other, as JSON documents.

===================  =======================================================================================
the worker           means
===================  =======================================================================================
`begin`              the database, and how long the worker may give no sign
`hold`               beat these attempts from now on
`drop`               beat these no longer, by their fences
`limit`              the fence of an attempt, and until when it may be beaten; None = without end
`ask`                beat now, with these checkpoints by fence; always answered
`sign`               the main thread is alive
`noted`              it has heard that the database cannot be reached
`end`                nothing is held any more
===================  =======================================================================================

===================  =======================================================================================
the child            means
===================  =======================================================================================
`ready`              it runs
`answers`            what the database has said; may be empty, and then only says that it can be reached. And
                     whether the worker has `asked`
`failed`             the database cannot be reached; says why
`stalled`            nothing is beaten any more, because the main thread gives no sign
===================  =======================================================================================

The child answers when it is asked. What it says by itself it says once for each time that it hears of the worker, and
puts the answers in between together. So a worker that does not read for a while leaves nobody waiting at a full socket.

Instants are those of the clock that all processes of a machine share.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import attrs
from attrs import frozen

from taskq_sync.model import Beat
from taskq_sync.worker.attempts import LiveAttempt
from taskq_sync.worker.lease import Leased, Terms


@frozen
class Answer:
    """What the database has said of one attempt, to a beat sent at *sent_at* with this *checkpoint*."""

    beat: Beat
    sent_at: float
    checkpoint: str | None

    def over(self, earlier: Answer | None) -> Answer:
        """Return this answer together with an *earlier* one that was not sent: what became of its checkpoint counts,
        unless this one says more."""
        if earlier is None or self.beat.progress_stored is not None:
            return self
        beat = attrs.evolve(self.beat, progress_stored=earlier.beat.progress_stored)
        return Answer(beat, self.sent_at, earlier.checkpoint)


class Kept(Leased):
    """An attempt in the child: beaten until the instant `beaten_until`, with `checkpoint` until that is stored."""

    __slots__ = ("beaten_until", "checkpoint")

    def __init__(self, job_id: int, fence: int, terms: Terms, *, beat_at: float, beaten_until: float) -> None:
        super().__init__(job_id, fence, terms, sent_at=beat_at - terms.beat)
        self.beaten_until = beaten_until
        self.checkpoint: str | None = None


def attempt_to_plain(attempt: LiveAttempt) -> dict[str, Any]:
    """Return what the child has to know of *attempt*, in the types of JSON."""
    return {
        "job_id": attempt.job_id,
        "fence": attempt.fence,
        "terms": attrs.asdict(attempt.terms),
        "beat_at": attempt.beat_at,
        "beaten_until": attempt.beaten_until,
    }


def kept_of(plain: dict[str, Any]) -> Kept:
    """Return what the child keeps of the attempt that `attempt_to_plain` was given."""
    return Kept(**{**plain, "terms": Terms(**plain["terms"])})


def answer_to_plain(answer: Answer) -> dict[str, Any]:
    """Return *answer* in the types of JSON."""
    expires_at = answer.beat.lease_expires_at
    beat = attrs.asdict(answer.beat) | {
        "lease_expires_at": None if expires_at is None else expires_at.isoformat()
    }
    return {"beat": beat, "sent_at": answer.sent_at, "checkpoint": answer.checkpoint}


def answer_of(plain: dict[str, Any]) -> Answer:
    """Return the answer that `answer_to_plain` was given."""
    beat = dict(plain["beat"])
    if beat["lease_expires_at"] is not None:
        beat["lease_expires_at"] = datetime.fromisoformat(beat["lease_expires_at"])
    return Answer(Beat(**beat), plain["sent_at"], plain["checkpoint"])
