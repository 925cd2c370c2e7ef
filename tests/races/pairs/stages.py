"""The stages: where the job stands when two calls meet, made by calls of the contract wherever there are any."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from kit.contract import Contract, Row
from races.sessions import settlement

#: What every job of a stage is; `q` is its queue, and an attempt that failed lies behind it where it waits.
KEYED: Row = {"unique_key": "u", "concurrency_key": "k", "ttl": "30 min", "max_attempts": 10}


@frozen
class Subject:
    """The job that the calls are about, its latest attempt (0 = none), and the attempt that fills its key."""

    job_id: int
    attempt_id: int = 0
    occupier: Row | None = None

    @property
    def attempt(self) -> Row:
        return {"job_id": self.job_id, "attempt_id": self.attempt_id}


def _queued(author: Contract, **options: object) -> Subject:
    attempt = author.new_attempt(**{**KEYED, **options})
    author.settle(**settlement(attempt, verb="fail"))
    return Subject(attempt["job_id"], attempt["attempt_id"])


def _running(author: Contract, **options: object) -> Subject:
    """Its lease has run out, and nobody has taken it back."""
    attempt = author.new_attempt(**{**KEYED, **options})
    author.run_out(attempt["job_id"])
    return Subject(attempt["job_id"], attempt["attempt_id"])


def _failed(author: Contract, **options: object) -> Subject:
    """Its retention is over, and it has not been pruned."""
    attempt = author.new_attempt(**{**KEYED, **options})
    author.settle(**settlement(attempt, verb="fail", retryable=False))
    author.run("update taskq.finished set purge_at = taskq.clock() - interval '1 min'")
    return Subject(attempt["job_id"], attempt["attempt_id"])


def _full(author: Contract) -> Subject:
    """Queued, not on hold, and the key is full."""
    job = _queued(author)
    occupier = author.new_attempt(queue="elsewhere", concurrency_key="k")
    return Subject(job.job_id, job.attempt_id, occupier)


def _held(author: Contract) -> Subject:
    job = _full(author)
    assert author.claim(queues=["q"], worker_id="w") == []
    return job


def _freed(author: Contract) -> Subject:
    """On hold, and the next claim brings it back."""
    job = _held(author)
    assert job.occupier is not None
    author.settle(**settlement(job.occupier, verb="complete"))
    return job


def _ordered(author: Contract) -> Subject:
    return Subject(author.new_job(**KEYED, ordered=True))


def _paused(author: Contract) -> Subject:
    job = _queued(author)
    author.pause_queue(queue="q")
    return job


def _overtaken(author: Contract) -> Subject:
    """Beside a job of a higher priority, which is not due before tomorrow."""
    author.set_queue(queue="q", aging="10 min")
    job = _queued(author)
    author.new_job(priority=5, delay="1 day")
    return job


def _expired(author: Contract) -> Subject:
    """Its time to live is over, and nobody has ended it."""
    job = _queued(author)
    author.run("update taskq.ready set expires_at = taskq.clock() - interval '1 min'")
    return job


def _over(author: Contract) -> Subject:
    """The time of its unique key is over, too."""
    job = _failed(author, unique_for="1 min")
    author.run("update taskq.unique_keys set expires_at = taskq.clock() - interval '1 min'")
    return job


STAGES: dict[str, Callable[[Contract], Subject]] = {
    "queued": _queued,
    "waiting": lambda author: _queued(author, unique_scope="waiting"),
    "ordered": _ordered,
    "paused": _paused,
    "overtaken": _overtaken,
    "expired": _expired,
    "full": _full,
    "held": _held,
    "freed": _freed,
    "running": _running,
    "started": lambda author: _running(author, unique_scope="waiting"),
    "failed": _failed,
    "over": _over,
}
#: At these the second call may be any after a first that moves the job; elsewhere it is one that touches the job there.
PLAIN = ("queued", "running", "failed")
