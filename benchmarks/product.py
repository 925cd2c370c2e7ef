"""What the benchmarks ask of the product: fill the queue, empty it, and prove where every job is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import psycopg

from benchmarks.benchmark import Incorrect
from taskq_sync.db.statements import Statements

statements = Statements()

QUEUE = "benchmark"
TASK = "benchmark.noop"

#: The most that one call of enqueue_many takes.
CHUNK = 10_000

#: A run that takes longer has lost something.
_PATIENCE = 300.0

_UNDER_WAY = "select exists (select from taskq.ready) or exists (select from taskq.running)"

# What a run leaves behind. Presence, queues and settings stay.
_TABLES = ("jobs", "ready", "running", "finished", "attempts", "unique_keys", "signals")


def payload(number: int) -> dict[str, object]:
    """Return a payload of about 100 bytes."""
    return {"number": number, "text": "x" * 72}


def clear(conn: psycopg.Connection[Any]) -> None:
    """Empty the tables of jobs.

    Workers that wait look into them every now and then. To queue for one table while holding another would be a
    deadlock with them, so all are locked at once or none.
    """
    tables = ", ".join(f"taskq.{table}" for table in _TABLES)
    while True:
        try:
            with conn.transaction():
                conn.execute(f"lock table {tables} in access exclusive mode nowait".encode())
                conn.execute(f"truncate {tables}".encode())
            return
        except psycopg.errors.LockNotAvailable:
            time.sleep(0.01)


def fill(conn: psycopg.Connection[Any], count: int, *, scheduled_at: datetime | None = None) -> list[int]:
    """Put *count* jobs into an empty queue, due at once or at *scheduled_at*, and return their ids.

    Vacuumed and analyzed, as a queue is that has been there for a minute.
    """
    clear(conn)
    ids: list[int] = []
    due = None if scheduled_at is None else scheduled_at.isoformat()
    for first in range(0, count, CHUNK):
        jobs = [
            {"task": TASK, "payload": payload(number), "scheduled_at": due}
            for number in range(first, min(first + CHUNK, count))
        ]
        rows = conn.execute(
            statements.enqueue_many, {"queue": QUEUE, "jobs": json.dumps(jobs), "skip_wake": True}
        )
        ids += [job_id for _, _, job_id in rows]
    conn.execute("vacuum (analyze) taskq.jobs, taskq.ready, taskq.running, taskq.finished")
    return ids


def claim_all(conn: psycopg.Connection[Any]) -> list[tuple[int, int]]:
    """Claim every job of the queue and return (job_id, attempt_id) of each, in claim order."""
    query = {"queues": [QUEUE], "worker_id": "benchmark", "limit": 1000, "lease": None}
    claimed: list[tuple[int, int]] = []
    while found := conn.execute(statements.claim, query).fetchall():
        claimed += [(row[0], row[1]) for row in found]
    return claimed


def await_empty(conn: psycopg.Connection[Any]) -> None:
    """Wait until no job waits or runs. The looks are few and cheap, so as not to disturb the run."""
    deadline = time.monotonic() + _PATIENCE
    while conn.execute(_UNDER_WAY).fetchone() == (True,):
        if time.monotonic() > deadline:
            raise Incorrect(f"the queue is not empty after {_PATIENCE:g} s")
        time.sleep(0.1)


def expect_once(expected: Iterable[int], found: Iterable[int], what: str) -> None:
    """Raise `Incorrect` unless each of *expected*, and nothing else, is in *found* exactly once."""
    wanted, got = sorted(expected), sorted(found)
    if wanted != got:
        lost, strange = len(set(wanted) - set(got)), len(set(got) - set(wanted))
        raise Incorrect(
            f"{what}: {len(got)} of {len(wanted)} jobs, {lost} of them missing, "
            f"{len(got) - len(set(got))} twice, {strange} unknown"
        )


def expect_place(conn: psycopg.Connection[Any], table: str, ids: Sequence[int]) -> None:
    """Raise `Incorrect` unless exactly the jobs *ids* stand in *table* and all tables agree."""
    found = [row[0] for row in conn.execute(f"select id from taskq.{table}".encode())]
    expect_once(ids, found, f"in {table}")
    problems = conn.execute(statements.check_integrity).fetchall()
    if problems:
        raise Incorrect(f"check_integrity() finds {len(problems)} problems, the first: {problems[0]}")
