"""A queue with nothing to do: what its workers cost the database, and how soon they start what comes."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import psycopg
from rich.console import Console

from benchmarks import counting
from benchmarks.benchmark import Incorrect
from benchmarks.figures import Reading, readings_table
from benchmarks.site import Site, machine, server, site, takes_server
from benchmarks.sleepers import QUEUE, TASK, Sleepers, clock_offset, sleepers

PROCESSES = 2

#: At most so many statements per second and worker process.
STATEMENTS = 0.5

#: At most so many seconds from the instant at which a job is due to the start of its handler, in 95 of 100 cases:
#: with notifications, and by polling, whose interval is the limit then.
PROMPT = 0.050
POLL = 1.0

#: Seconds that a transaction with an enqueue stays open.
HELD = 2.0

#: After so many seconds a worker does what it does for ever; before, it holds back with taking back.
_SETTLED = 25.0

#: A job that is not started after so many seconds is lost.
_PATIENCE = 60.0

_LINUX = sys.platform == "linux"

_TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"

_notes = Console(stderr=True)
_output = Console(width=None if sys.stdout.isatty() else 130)


@click.command
@click.option(
    "--seconds", type=click.FloatRange(1), default=120, show_default=True, help="How long to count."
)
@click.option("--samples", type=click.IntRange(1), default=40, show_default=True, help="Jobs of each kind.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per measure instead of a table.")
@takes_server
def idle(seconds: float, samples: int, as_json: bool, dsn: str | None) -> None:
    """Workers with nothing to do: their statements, and how late they start what becomes due.

    A server given by --dsn must have pg_stat_statements among its shared_preload_libraries.
    """
    try:
        with server(dsn, counting.SETTINGS) as server_dsn, site(server_dsn) as place:
            where = machine(server_dsn)
            table = readings_table(
                f"idle: PostgreSQL {where.server}, Python {where.python}, {where.cpus} CPUs"
            )
            for reading in _readings(place, seconds, samples):
                if as_json:
                    click.echo(reading.to_json(where))
                else:
                    table.add_row(*reading.row())
            if not as_json:
                _output.print(table)
    except Incorrect as error:
        click.echo(f"incorrect: {error}", err=True)
        sys.exit(1)


def _readings(place: Site, seconds: float, samples: int) -> Iterator[Reading]:
    counting.start(place.conn)
    with sleepers(place.dsn, processes=PROCESSES, listening=True) as workers:
        yield from _at_rest(place, workers, seconds)
        yield from _delays(place, workers, samples, "with notifications", PROMPT)
    with sleepers(place.dsn, processes=PROCESSES, listening=False) as workers:
        yield from _delays(place, workers, samples, "by polling", POLL)


def _at_rest(place: Site, workers: Sleepers, seconds: float) -> Iterator[Reading]:
    """What one worker process sends and uses when there is nothing to do. Only the statements have a limit."""
    time.sleep(min(_SETTLED, seconds))
    counting.reset(place.conn)
    transactions, processor = _transactions(place), _processor(workers) if _LINUX else 0.0
    time.sleep(seconds)
    transactions = _transactions(place) - transactions
    processor = _processor(workers) - processor if _LINUX else 0.0
    found = counting.counted(place.conn)
    for count, query in found:
        _notes.print(f"{count:5d} {' '.join(query.split())}", markup=False)
    statements = sum(count for count, _ in found)
    each = seconds * PROCESSES
    name = "idle, {} of one worker process"
    yield Reading.of(name.format("statements"), "statements/s", [statements / each], STATEMENTS)
    yield Reading.of(name.format("transactions"), "transactions/s", [transactions / each], None)
    if _LINUX:
        yield Reading.of(name.format("processor time"), "ms/s", [processor * 1e3 / each], None)


def _transactions(place: Site) -> int:
    """How many have ended in the database, but for what sessions have not reported in the last second."""
    [(count,)] = place.conn.execute(_TRANSACTIONS).fetchall()
    return int(count)


def _processor(workers: Sleepers) -> float:
    """The seconds of processor that all of them have used, without the server's."""
    texts = [Path(f"/proc/{pid}/stat").read_text() for pid in workers.pids]
    ticks = sum(int(field) for text in texts for field in text.rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def _delays(place: Site, workers: Sleepers, samples: int, how: str, limit: float) -> Iterator[Reading]:
    """How late jobs start that become due while all workers sleep, in each of the ways in which they do."""
    for kind, make in _KINDS.items():
        late = []
        for number in range(samples):
            due_at = make(place, number)
            try:
                late.append(workers.started_at(number, _PATIENCE) - due_at)
            except TimeoutError as error:
                raise Incorrect(f"{kind}: {error}") from error
            time.sleep(random.uniform(1.2, 2.2))  # the workers lie down again, and wait
        yield Reading.of(f"{kind}, {how}", "s", late, limit)


def _delayed(place: Site, number: int) -> float:
    """Enqueue with a delay and return when the job is due, by `time.time()`."""
    return _due_at(place.conn, _enqueue(place.conn, number, delay=random.uniform(0.3, 1.5)))


def _retried(place: Site, number: int) -> float:
    """Claim and fail a job as a worker elsewhere would."""
    with place.conn.transaction():  # nobody else sees it before it is claimed
        job = _enqueue(place.conn, number)
        row = place.conn.execute(
            "select job_id, attempt_id from taskq.claim(p_queues => %s, p_worker_id => 'elsewhere')",
            ([QUEUE],),
        ).fetchone()
    assert row is not None
    assert row[0] == job
    time.sleep(1.5)  # whoever was woken in vain has lain down again
    place.conn.execute(
        "select from taskq.fail(p_job_id => %s, p_attempt_id => %s, p_error => 'busy', p_retry_after => %s)",
        (*row, f"{random.uniform(0.3, 1.5)} s"),
    )
    return _due_at(place.conn, job)


def _held(place: Site, number: int) -> float:
    """Enqueue in a transaction that stays open while the workers go to sleep; it is due when it commits."""
    with psycopg.connect(place.dsn) as conn:
        _enqueue(place.conn, -1)  # the workers get up, and lie down while the other one is open
        _enqueue(conn, number)
        time.sleep(HELD)
        conn.commit()
        return time.time()


_KINDS: Mapping[str, Callable[[Site, int], float]] = {
    "a delayed job": _delayed,
    "a retry that another worker settled": _retried,
    "an enqueue that was held open": _held,
}


def _enqueue(conn: psycopg.Connection[Any], number: int, delay: float | None = None) -> int:
    """Enqueue by a connection of a user's own, and return the id of the job."""
    row = conn.execute(
        "select job_id from taskq.enqueue(%s, %s, jsonb_build_object('number', %s::int), p_delay => %s)",
        (QUEUE, TASK, number, None if delay is None else f"{delay} s"),
    ).fetchone()
    assert row is not None
    return int(row[0])


def _due_at(conn: psycopg.Connection[Any], job: int) -> float:
    """Return when *job* is due, by `time.time()`. It waits, or it has run meanwhile."""
    row = conn.execute(
        "select extract(epoch from scheduled_at)::float8 from taskq.get_job(%s)", (job,)
    ).fetchone()
    assert row is not None
    return float(row[0]) - clock_offset(conn)
