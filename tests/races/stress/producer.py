"""The calls of producers: single and many, in transactions of their own and of callers."""

from __future__ import annotations

import json
from typing import Any

from taskq_sync.db.statements import Statements

from .caller import BUSY, CHANGING, LIVE_KEYS, ORDERED, QUEUES, QUIET, WAITING_KEYS, Caller, Open
from .ledger import Enqueued

_statements = Statements()


class Producer(Caller):
    """Enqueues jobs of all kinds, with delays and lives so short that nobody has to wait for them."""

    def _request(self, burst: str | None = None, *, waiting: bool = True) -> dict[str, Any]:
        """Return the properties of a job as in a document of `enqueue_many`, one of a *burst* of one key or of any.

        Without *waiting* it asks for no unique key that is given up at the start of its job.
        """
        chance = self.chance
        job: dict[str, Any] = {
            "task": "t",
            "max_attempts": chance.choice((1, 3, 10, 10)),
            "priority": chance.randrange(3),
        }
        job["backoff"], job["backoff_max"] = chance.choice((0, 0.05)), 0.2
        job["lease"] = chance.choice((0.2, 5, 60))
        if chance.random() < 0.6:
            job["concurrency_key"] = burst or chance.choice((*BUSY, *CHANGING))
        if chance.random() < self._mix.unique:
            job.update(self._uniqueness(waiting))
        if chance.random() < 0.15:
            job["ttl"] = chance.choice((0.05, 0.5, 2))
        if chance.random() < 0.15:
            job["delay"] = chance.random() * 0.3
        return job

    def _uniqueness(self, waiting: bool) -> dict[str, Any]:
        chance = self.chance
        asked: dict[str, Any] = {"unique_mode": chance.choice(MODES)}
        if waiting and chance.random() < 1 / 3:
            asked["unique_key"] = chance.choice(WAITING_KEYS)
            asked["unique_scope"] = chance.choice(("waiting", "waiting", "live"))
        else:
            asked["unique_key"] = chance.choice(LIVE_KEYS)
        if chance.random() < 0.2:
            asked["unique_for"] = chance.random()
        return asked

    def _enqueue(self, made: Open, *, unique: bool = True, waiting: bool = True, **properties: Any) -> None:
        queue = properties.pop("queue", None) or self.chance.choice(QUEUES)
        job = {**self._request(waiting=waiting), **properties}
        if job.get("ordered"):
            self._put_in_order(job)
        if not unique:
            for name in _UNIQUENESS:
                job.pop(name, None)
        parameters = {**_NO_OPTIONS, **job, "queue": queue}
        for duration in ("delay", "backoff", "backoff_max", "lease", "ttl", "unique_for"):
            if parameters[duration] is not None:
                parameters[duration] = f"{parameters[duration]:.6f} s"  # PostgreSQL reads no exponent here
        [row] = made.ask(_statements.enqueue, **parameters)
        self._note(made, queue, job, row)

    def _enqueue_many(self, made: Open, most: int, *, ordered: bool = False) -> None:
        queue = self.chance.choice(QUEUES)
        burst = self.chance.choice((None, *self.chance.sample(tuple(QUIET), 1)))
        jobs = [self._request(burst) for _ in range(self.chance.randint(1, most))]
        if ordered:
            for job in self.chance.sample(jobs, min(2, len(jobs))):
                self._put_in_order(job)
        rows = made.ask(_statements.enqueue_many, queue=queue, jobs=json.dumps(jobs), skip_wake=False)
        assert [row.ordinal for row in rows] == list(range(len(jobs)))
        for row, job in zip(rows, jobs, strict=True):
            self._note(made, queue, job, row)

    def _put_in_order(self, job: dict[str, Any]) -> None:
        job.update(ordered=True, concurrency_key=self.chance.choice(ORDERED))
        if "unique_mode" in job:
            job["unique_mode"] = "keep"

    def _note(self, made: Open, queue: str, job: dict[str, Any], row: Any) -> None:
        asked = {
            name: job[name]
            for name in ("unique_key", "unique_mode", "unique_for")
            if job.get(name) is not None
        }
        made.note(Enqueued, job_id=row.job_id, status=row.status, queue=queue, **asked)

    def enqueue(self) -> None:
        with self.single() as made:
            if self.chance.random() < 0.15:
                self._enqueue(made, ordered=True)
            else:
                self._enqueue(made)

    def enqueue_many(self) -> None:
        with self.single() as made:
            self._enqueue_many(made, self._mix.rows, ordered=self.chance.random() < 0.3)

    def enqueue_in_an_open_transaction(self) -> None:
        """One call with unique keys, which it takes in order, and others without."""
        with self.transaction() as made:
            self._enqueue(made, unique=False)
            self._enqueue_many(made, max(6, self._mix.rows // 2))
            self._enqueue(made, unique=False)


MODES = ("keep", "keep", "replace", "replace_keep_schedule")
_UNIQUENESS = ("unique_key", "unique_mode", "unique_scope", "unique_for")

_NO_OPTIONS: dict[str, Any] = {
    "payload": "{}",
    "priority": None,
    "scheduled_at": None,
    "delay": None,
    "unique_key": None,
    "concurrency_key": None,
    "max_attempts": None,
    "backoff": None,
    "backoff_max": None,
    "lease": None,
    "ttl": None,
    "headers": None,
    "skip_wake": False,
    "unique_mode": None,
    "unique_scope": None,
    "unique_for": None,
    "ordered": None,
}
