"""What concurrency keys and times to live cost: claims of jobs with keys, behind a jam, and of a freed slot."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import click
import psycopg
from attrs import define, field, frozen
from rich.console import Console

from benchmarks import harness, product
from benchmarks.benchmark import Benchmark, Incorrect, Measure
from benchmarks.figures import Reading, figures_table, readings_table
from benchmarks.site import Site, machine, server, site, takes_server
from benchmarks.sleepers import QUEUE, TASK, sleepers

CLIENTS = 4
ROWS = 100
JOBS = 20_000
KEYS = 1_000
JAM = 1_000_000

#: The longest that the first claims may take to put a jam of `JAM` rows aside, in seconds; for fewer, in proportion.
MEETING = 15.0

#: At most so many seconds from the end of a job to the start of the next of its full key, in 95 of 100 cases.
FREED = 0.100

#: Queues whose jobs have keys, or a jam before them; and one beside them, whose jobs have neither.
KEYED, EXPIRED, FREE = "keyed", "expired", "free"

_FULL = "full"

#: As enqueue stores them, in one statement for each million.
_FILL_JAM = """
with job as (
  insert into taskq.jobs (queue, task, payload, priority, concurrency_key, max_attempts, backoff, backoff_max, lease,
                          created_at, enqueued_by)
  select %(queue)s, 'jam', '{}', 1, %(key)s, 5, '30 s', '1 h', '60 s', taskq.clock(), user
  from generate_series(1, %(count)s)
  returning id, queue, task, priority, concurrency_key, created_at)
insert into taskq.ready (id, queue, task, priority, scheduled_at, expires_at, concurrency_key)
select id, queue, task, priority, created_at, case when %(expired)s then created_at end, concurrency_key from job
"""

_output = Console(width=None if sys.stdout.isatty() else 130)


@click.command
@click.option("--json", "as_json", is_flag=True, help="One JSON object per measure instead of a table.")
@takes_server
@click.option(
    "--pairs", type=click.IntRange(1), default=harness.PAIRS, show_default=True, help="Runs of each side."
)
@click.option("--jam", type=click.IntRange(1), default=JAM, show_default=True, help="Jobs of the full key.")
@click.option("--jobs", type=click.IntRange(1), default=JOBS, show_default=True, help="Jobs of one run.")
@click.option(
    "--samples", type=click.IntRange(1), default=40, show_default=True, help="Slots that are freed."
)
def limits(as_json: bool, dsn: str | None, pairs: int, jam: int, jobs: int, samples: int) -> None:
    """What concurrency keys and times to live cost, against jobs without any."""
    try:
        with server(dsn) as server_dsn, site(server_dsn) as place:
            where = machine(server_dsn)
            figures = harness.run(_with_keys(place, jobs), pairs=pairs)
            met = [_meet_a_jam(place, KEYED, jam)]
            figures += harness.run(_behind_a_jam(place, KEYED, "a full key", jobs), pairs=pairs)
            met.append(_meet_a_jam(place, EXPIRED, jam))
            figures += harness.run(_behind_a_jam(place, EXPIRED, "expired jobs", jobs), pairs=pairs)
            met.append(_free_slots(place, samples))
            if as_json:
                for figure in figures:
                    click.echo(figure.to_json(where))
                for reading in met:
                    click.echo(reading.to_json(where))
                return
            title = f"limits: PostgreSQL {where.server}, Python {where.python}, {where.cpus} CPUs"
            table, once = figures_table(title), readings_table("once")
            for figure in figures:
                table.add_row(*figure.row())
            for reading in met:
                once.add_row(*reading.row())
            _output.print(table, once)
    except Incorrect as error:
        click.echo(f"incorrect: {error}", err=True)
        sys.exit(1)


def _with_keys(place: Site, jobs: int) -> Benchmark:
    return Benchmark(
        measures=(Measure(name=f"limits, {KEYS:,} keys", unit="jobs/s", limit=0.5),),
        product=_Drain(place, KEYED, jobs, keys=KEYS),
        floor=_Drain(place, FREE, jobs),
    )


def _behind_a_jam(place: Site, queue: str, what: str, jobs: int) -> Benchmark:
    return Benchmark(
        measures=(Measure(name=f"limits, behind {what}", unit="jobs/s", limit=0.7),),
        product=_Drain(place, queue, jobs),
        floor=_Drain(place, FREE, jobs),
    )


def _meet_a_jam(place: Site, queue: str, jam: int) -> Reading:
    """Put *jam* jobs of a closed key, or expired ones, before all others, and claim until they are out of the way."""
    place.conn.execute("select taskq.set_concurrency_limit(%s, 0)", (_FULL,))
    key = _FULL if queue == KEYED else None
    place.conn.execute(_FILL_JAM, {"queue": queue, "key": key, "expired": key is None, "count": jam})
    place.conn.execute("vacuum (analyze) taskq.jobs, taskq.ready")
    [behind] = _enqueue(place.conn, queue, [None])
    began = time.monotonic()
    while not (found := place.conn.execute(product.statements.claim, _claim(queue)).fetchall()):
        if time.monotonic() - began > 20 * MEETING:
            raise Incorrect("the job behind the jam was not claimed")
    seconds = time.monotonic() - began
    if [row[0] for row in found] != [behind]:
        raise Incorrect("something else than the job behind the jam was claimed")
    place.conn.execute(product.statements.settle, _completed(found))
    place.conn.execute("vacuum (analyze) taskq.ready")
    jobs = f"{jam:,} jobs of a full key" if key else f"{jam:,} expired jobs"
    return Reading.of(f"limits, meeting {jobs}", "s", [seconds], MEETING * jam / JAM)


def _free_slots(place: Site, samples: int) -> Reading:
    """How late the next job of a full key is started by workers that sleep, once the one that ran has ended."""
    late = []
    with sleepers(place.dsn, processes=2, listening=True) as workers:
        for number in range(samples):
            with place.conn.transaction():  # nobody else sees it before it is claimed
                _enqueue_for(place.conn, f"slot {number}", -1)
                [row] = place.conn.execute(product.statements.claim, _claim(QUEUE)).fetchall()
            _enqueue_for(place.conn, f"slot {number}", number)
            time.sleep(random.uniform(1.2, 2.2))  # the workers have found the key full, and lie down
            freed_at = time.time()
            place.conn.execute(product.statements.settle, _completed([row]))
            try:
                late.append(workers.started_at(number, 60.0) - freed_at)
            except TimeoutError as error:
                raise Incorrect(f"a slot was freed, but {error}") from error
    return Reading.of("limits, from a freed slot to the next start", "s", late, FREED)


def _enqueue_for(conn: psycopg.Connection[Any], key: str, number: int) -> None:
    conn.execute(
        "select from taskq.enqueue(%s, %s, jsonb_build_object('number', %s::int), p_concurrency_key => %s)",
        (QUEUE, TASK, number, key),
    )


def _enqueue(conn: psycopg.Connection[Any], queue: str, keys: Sequence[str | None]) -> list[int]:
    ids: list[int] = []
    for first in range(0, len(keys), product.CHUNK):
        jobs = [
            {"task": product.TASK, "payload": product.payload(number), "concurrency_key": key}
            for number, key in enumerate(keys[first : first + product.CHUNK])
        ]
        query = {"queue": queue, "jobs": json.dumps(jobs), "skip_wake": True}
        ids += [job_id for _, _, job_id in conn.execute(product.statements.enqueue_many, query)]
    return ids


def _claim(queue: str) -> dict[str, object]:
    return {"queues": [queue], "worker_id": "benchmark", "limit": ROWS, "lease": None}


def _completed(rows: Sequence[tuple[Any, ...]]) -> dict[str, object]:
    verdicts = [{"job_id": row[0], "attempt_id": row[1], "verb": "complete"} for row in rows]
    return {"worker_id": "benchmark", "settlements": json.dumps(verdicts)}


@frozen
class _Work:
    """A client: claims and completes by turns, until all that is not on hold for the full key is done."""

    queue: str

    def __call__(self, conn: psycopg.Connection[Any]) -> list[int]:
        done: list[int] = []
        in_vain = 0
        while in_vain < 3:
            found = conn.execute(product.statements.claim, _claim(self.queue)).fetchall()
            if found:
                conn.execute(product.statements.settle, _completed(found))
                done += [row[0] for row in found]
                in_vain = 0
            else:
                in_vain += 1
                time.sleep(0.002)
        return done


@define
class _Drain:
    """One side: *jobs* jobs of a queue, with so many keys (limit 1 each) or none, claimed and completed."""

    site: Site
    queue: str
    jobs: int
    keys: int = 0
    ids: list[int] = field(init=False, factory=list)
    done: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        keys = [f"key {number % self.keys}" if self.keys else None for number in range(self.jobs)]
        self.ids = _enqueue(self.site.conn, self.queue, keys)
        self.site.conn.execute("vacuum (analyze) taskq.running, taskq.signals")
        self.site.conn.execute("analyze taskq.jobs, taskq.ready")

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(CLIENTS, _Work(self.queue))
        self.done = [job_id for each in shift.results for job_id in each]
        return (len(self.done) / shift.seconds,)

    def check(self) -> None:
        product.expect_once(self.ids, self.done, "completed")
        row = self.site.conn.execute("select count(*) from taskq.running").fetchone()
        if row != (0,):
            raise Incorrect(f"{row} jobs are still running")
