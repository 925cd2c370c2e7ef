"""The calls of producers: single and many, in transactions of their own and of callers."""

from __future__ import annotations

import json
from typing import Any

from taskq_sync.db.statements import Statements

from .caller import BUSY, CHANGING, QUEUES, QUIET, Caller, Open
from .ledger import Enqueued

_statements = Statements()


class Producer(Caller):
    """Enqueues jobs of all kinds, with delays and lives so short that nobody has to wait for them."""

    def _request(self, burst: str | None = None) -> dict[str, Any]:
        """Return the properties of a job as in a document of `enqueue_many`, one of a *burst* of one key or of any."""
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
        if chance.random() < 0.3:
            job["unique_key"] = f"u{chance.randrange(30)}"
        if chance.random() < 0.15:
            job["ttl"] = chance.choice((0.05, 0.5, 2))
        if chance.random() < 0.15:
            job["delay"] = chance.random() * 0.3
        return job

    def _enqueue(self, made: Open, *, unique: bool = True, **properties: Any) -> None:
        queue = properties.pop("queue", None) or self.chance.choice(QUEUES)
        job = {**self._request(), **properties}
        if not unique:
            job.pop("unique_key", None)
        parameters = {**_NO_OPTIONS, **job, "queue": queue}
        for duration in ("delay", "backoff", "backoff_max", "lease", "ttl"):
            if parameters[duration] is not None:
                parameters[duration] = f"{parameters[duration]:.6f} s"  # PostgreSQL reads no exponent here
        [row] = made.ask(_statements.enqueue, **parameters)
        made.note(
            Enqueued, job_id=row.job_id, status=row.status, queue=queue, unique_key=job.get("unique_key")
        )

    def _enqueue_many(self, made: Open, most: int) -> None:
        queue = self.chance.choice(QUEUES)
        burst = self.chance.choice((None, *self.chance.sample(tuple(QUIET), 1)))
        jobs = [self._request(burst) for _ in range(self.chance.randint(1, most))]
        rows = made.ask(_statements.enqueue_many, queue=queue, jobs=json.dumps(jobs), skip_wake=False)
        assert [row.ordinal for row in rows] == list(range(len(jobs)))
        for row, job in zip(rows, jobs, strict=True):
            made.note(
                Enqueued, job_id=row.job_id, status=row.status, queue=queue, unique_key=job.get("unique_key")
            )

    def enqueue(self) -> None:
        with self.single() as made:
            if self.chance.random() < 0.15:
                key = self.chance.choice(ORDERED)
                self._enqueue(made, unique=False, concurrency_key=key, ordered=True)
            else:
                self._enqueue(made)

    def enqueue_many(self) -> None:
        with self.single() as made:
            self._enqueue_many(made, 15)

    def enqueue_in_an_open_transaction(self) -> None:
        """One call with unique keys, which it takes in order, and others without."""
        with self.transaction() as made:
            self._enqueue(made, unique=False)
            self._enqueue_many(made, 6)
            self._enqueue(made, unique=False)


#: Keys whose jobs run one after the other. Only single calls ask for them: each is a lock that others wait for.
ORDERED = ("o1", "o2")

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
