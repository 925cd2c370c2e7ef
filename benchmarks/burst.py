"""A worker that runs so many jobs and ends: how fast it was, by what the database has on record."""

from __future__ import annotations

import multiprocessing
from typing import Any

import psycopg

from benchmarks import product
from benchmarks.benchmark import Incorrect
from benchmarks.site import Site
from taskq_sync import TaskQ
from taskq_sync.worker import Worker

_spawn = multiprocessing.get_context("spawn")

_MARK = "select coalesce(max(attempt_id), 0) from taskq.finished"
_RECORD = """
select count(*), count(*) filter (where attempt_count > 1),
  extract(epoch from max(finished_at) - min(claimed_at))::float8
from taskq.finished
where attempt_id > %s
"""


def drain(site: Site, jobs: int, *, slots: int) -> float:
    """Have a new worker process run *jobs* jobs, and return jobs/s from its first claim to its last settle.

    The start of the process is not in it. Raises `Incorrect` unless each was run once.
    """
    mark = _one(site.conn, _MARK)[0]
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=_work, args=(site.dsn, jobs, slots, theirs))
    process.start()
    theirs.close()
    try:
        ran = ours.recv()
    except EOFError:
        raise Incorrect("the worker died") from None
    finally:
        process.join()
    finished, again, seconds = _one(site.conn, _RECORD, mark)
    if not ran == finished == jobs or again:
        raise Incorrect(
            f"{ran} runs of {jobs} jobs, {finished} finished, {again} of them not by the first attempt"
        )
    return jobs / float(seconds)


def _one(conn: psycopg.Connection[Any], query: str, *values: object) -> Any:
    return conn.execute(query.encode(), values).fetchone()


def _work(dsn: str, jobs: int, slots: int, pipe: Any) -> None:
    ran: list[int] = []
    with TaskQ(dsn) as tq:

        @tq.task(queue=product.QUEUE, name=product.TASK)
        def noop(number: int, text: str) -> None:
            ran.append(number)  # atomic, so that the slots need no lock of ours

        Worker(tq, slots=slots, max_jobs=jobs).run()
    pipe.send(len(ran))
