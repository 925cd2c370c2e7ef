"""Jobs in bulk: a million of them put into the tables by one statement, as if they had come by the functions.

Only so do a million queued jobs, or five million finished ones, cost a minute and not an hour. `check_integrity()` says
whether they are what the functions would have made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from benchmarks import product
from benchmarks.benchmark import Incorrect

#: A queue in use: so many priorities, and every second job is not due before tomorrow.
PRIORITIES = 10

_DONE = ("ok", "retry_scheduled")

_EXPLAIN = "explain (analyze, buffers, format json) "

_JOBS = """
insert into taskq.jobs (queue, task, payload, priority, max_attempts, backoff, backoff_max, lease, created_at,
                        enqueued_by)
select %(queue)s, %(task)s, jsonb_build_object('number', n, 'text', %(text)s::text), n %% %(priorities)s, 5, '30 s',
  '1 h', '60 s', taskq.clock() - interval '1 minute' + n * interval '1 us', session_user
from generate_series(0, %(count)s::int - 1) as n
returning id, queue, task, priority, created_at, (payload ->> 'number')::int as n
"""

_QUEUED = f"""
with job as ({_JOBS})
insert into taskq.ready (id, queue, task, priority, scheduled_at)
select id, queue, task, priority,
  created_at + case when %(half_later)s and n / %(priorities)s %% 2 = 1 then interval '1 day' else '0' end
from job
"""

_FINISHED = f"""
with job as ({_JOBS})
insert into taskq.finished (id, queue, task, status, outcome, verb, attempt_id, worker_id, claimed_at, finished_at,
                            purge_at, priority, scheduled_at, attempt_count, failure_count, expiry_streak,
                            snooze_count, is_unique, is_ordered, watched)
select id, queue, task, 'succeeded', 'success', 'complete', nextval('taskq.fence'), 'benchmark', created_at,
  created_at, created_at + interval '2 days', priority, created_at, 1, 0, 0, 0, false, false, false
from job
"""


def queued(
    conn: psycopg.Connection[Any],
    count: int,
    *,
    queue: str = product.QUEUE,
    text: str = "x" * 72,
    priorities: int = 1,
    half_later: bool = False,
) -> None:
    """Store *count* jobs that are due; *half_later*: every second one of each priority is not due before tomorrow.

    The payload is that of `product.payload`, numbered from 0, with another *text* if given.
    """
    conn.execute(_QUEUED, {**_of(count, queue, text, priorities), "half_later": half_later})


def finished(conn: psycopg.Connection[Any], count: int) -> None:
    """Store *count* jobs that have succeeded, and are kept for two days."""
    conn.execute(_FINISHED, _of(count, "past", "x" * 72, PRIORITIES))


def _of(count: int, queue: str, text: str, priorities: int) -> dict[str, object]:
    return {"count": count, "queue": queue, "task": product.TASK, "text": text, "priorities": priorities}


def tidy(conn: psycopg.Connection[Any]) -> None:
    """Vacuum and analyze the tables of the path of a job, as autovacuum does within a minute."""
    conn.execute("vacuum (analyze) taskq.jobs, taskq.ready, taskq.running, taskq.finished")


def claim(conn: psycopg.Connection[Any], limit: int) -> list[tuple[int, int]]:
    """Claim up to *limit* jobs by the statement of the worker, and return (job_id, attempt_id) of each."""
    query = {"queues": [product.QUEUE], "worker_id": "benchmark", "limit": limit, "lease": None}
    return [(row[0], row[1]) for row in conn.execute(product.statements.claim, query)]


def claim_buffers(conn: psycopg.Connection[Any], limit: int) -> int:
    """Claim *limit* jobs and return how many buffers that has touched, those of all nested statements included."""
    query = {"queues": [product.QUEUE], "worker_id": "benchmark", "limit": limit, "lease": None}
    [(found,)] = conn.execute(_EXPLAIN + product.statements.claim, query).fetchall()
    plan = found[0]["Plan"]
    if plan["Actual Rows"] != limit:
        raise Incorrect(f"a claim of {limit} brought {plan['Actual Rows']}")
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def settle(
    conn: psycopg.Connection[Any],
    attempts: Sequence[tuple[int, int]],
    *,
    verb: str = "complete",
    **more: object,
) -> None:
    """Settle *attempts* by the statement of the worker, all of them with the same verdict."""
    document = [
        {"job_id": job_id, "attempt_id": attempt_id, "verb": verb, **more} for job_id, attempt_id in attempts
    ]
    query = {"worker_id": "benchmark", "settlements": json.dumps(document)}
    refused = [row for row in conn.execute(product.statements.settle, query) if row[2] not in _DONE]
    if refused:
        raise Incorrect(f"{len(refused)} of {len(attempts)} were not settled, the first: {refused[0]}")


def count(conn: psycopg.Connection[Any], table: str) -> int:
    """Return how many jobs of the benchmark's queue stand in *table*."""
    [(found,)] = conn.execute(
        f"select count(*) from taskq.{table} where queue = %s".encode(), (product.QUEUE,)
    ).fetchall()
    return int(found)


def expect_integrity(conn: psycopg.Connection[Any]) -> None:
    """Raise `Incorrect` if the tables do not agree."""
    problems = conn.execute(product.statements.check_integrity).fetchall()
    if problems:
        raise Incorrect(f"check_integrity() finds {len(problems)} problems, the first: {problems[0]}")
