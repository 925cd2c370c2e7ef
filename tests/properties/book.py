"""A plain note of what the sessions were told: which jobs there are, who runs, what has ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import define, field, frozen

from kit.contract import Row


@frozen
class Request:
    """A job as it was last asked for."""

    queue: str
    unique_key: str | None = None
    scope: str = "live"


@frozen
class Attempt:
    """A job in the hands of a worker, with the limit of its key that the claim saw."""

    job_id: int
    attempt_id: int
    limit: int | None


@define
class Book:
    """What is committed, by the answers alone; it refuses what cannot be."""

    jobs: dict[int, Request] = field(factory=dict)
    #: By their fence.
    running: dict[int, Attempt] = field(factory=dict)
    ended: set[int] = field(factory=set)
    #: Put back once at least: the jobs of an ordered key that were next meanwhile go before them.
    redrives: set[int] = field(factory=set)
    #: A unique key counts until then at least.
    counts_until: dict[tuple[str, str], datetime] = field(factory=dict)
    last_attempt: dict[int, int] = field(factory=dict)

    def created(self, job_id: int, request: Request, now: datetime, unique_for: float | None) -> None:
        assert job_id not in self.jobs, f"job {job_id} was created twice"
        self.jobs[job_id] = request
        if request.unique_key is not None:
            key = (request.queue, request.unique_key)
            until = self.counts_until.pop(key, None)
            assert until is None or until <= now, f"job {job_id}: unique key {key} counts until {until}"
            self._count(key, now, unique_for)

    def replaced(self, job_id: int, request: Request, now: datetime, unique_for: float | None) -> None:
        assert job_id not in self.ended, f"job {job_id} was replaced after its end"
        self.jobs[job_id] = request
        self._count((request.queue, str(request.unique_key)), now, unique_for)

    def met(self, job_id: int, request: Request) -> None:
        holder = self.jobs.get(job_id)
        assert holder is not None, f"job {job_id} was named as a holder, and nobody has enqueued it"
        assert (holder.queue, holder.unique_key) == (request.queue, request.unique_key), (
            f"{holder} met {request}"
        )

    def may_hold(self, job_id: int, status: str, now: datetime) -> bool:
        """Whether a job of this *status* may hold its unique key."""
        request = self.jobs[job_id]
        until = self.counts_until.get((request.queue, str(request.unique_key)), now)
        return status == "queued" or (status == "running" and request.scope == "live") or until > now

    def started(self, attempt: Attempt) -> None:
        job_id = attempt.job_id
        assert job_id in self.jobs, f"job {job_id} was started, and nobody has enqueued it"
        assert job_id not in self.ended, f"job {job_id} was started after its end"
        others = [each for each in self.running.values() if each.job_id == job_id]
        assert not others, f"job {job_id} was started while it runs: {others}"
        assert attempt.attempt_id > self.last_attempt.get(job_id, 0), f"{attempt} has an old fence"
        self.last_attempt[job_id] = attempt.attempt_id
        self.running[attempt.attempt_id] = attempt

    def settled(self, job_id: int, attempt_id: int, status: str) -> None:
        assert self.running.pop(attempt_id, None), f"attempt {attempt_id} of job {job_id} was ended twice"
        if status != "queued":
            self.finished(job_id)

    def finished(self, job_id: int) -> None:
        assert job_id not in self.ended, f"job {job_id} has ended twice"
        self.ended.add(job_id)

    def redriven(self, job_id: int) -> None:
        self.ended.discard(job_id)  # of one that expired nobody was told
        self.redrives.add(job_id)

    def _count(self, key: tuple[str, str], now: datetime, unique_for: float | None) -> None:
        if unique_for is not None:
            until = now + timedelta(seconds=unique_for)
            self.counts_until[key] = max(until, self.counts_until.get(key, until))


def limit_of(key: str, limits: Row) -> int:
    """Return how many jobs of *key* may run at once: its own limit, the longest pattern's, or 1."""
    if key in limits:
        return int(limits[key])
    patterns = [each for each in limits if each.endswith("*") and key.startswith(each[:-1])]
    return int(limits[max(patterns, key=len)]) if patterns else 1
