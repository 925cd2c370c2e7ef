"""What a worker process takes of the memory, and whether that grows with the jobs that it has run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from attrs import frozen
from rich.console import Console

from benchmarks import product, stock
from benchmarks.benchmark import Incorrect
from benchmarks.figures import Reading, readings_table
from benchmarks.site import Site, machine, server, site, takes_server

SLOTS = 16
JOBS = 1_000_000

#: Jobs that a worker has run when its memory is looked at.
FIRST = 1_000

#: At most so many MiB more than an interpreter that has imported nothing.
ABOVE_PYTHON = 60.0

#: At most so many MiB more in the last tenth of a million jobs than in the second: 7 bytes for each, and the smallest
#: object that a job could leave behind takes 16. Less would not do: a worker that gets faster meanwhile claims more
#: jobs ahead, up to a thousand, and these take some MiB.
GROWTH = 5.0

#: Seconds between two looks.
_EVERY = 0.25

#: Seconds within which some job must be claimed.
_PATIENCE = 60.0

_REPOSITORY = Path(__file__).parents[1]
_MIB = 1024.0

_notes = Console(stderr=True)
_output = Console(width=None if sys.stdout.isatty() else 130)


@click.command
@click.option(
    "--samples", type=click.IntRange(1), default=5, show_default=True, help="Workers that are started."
)
@click.option(
    "--jobs", type=click.IntRange(FIRST), default=JOBS, show_default=True, help="Jobs that one of them runs."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per measure instead of a table.")
@takes_server
def memory(samples: int, jobs: int, as_json: bool, dsn: str | None) -> None:
    """The memory of a worker with 16 slots, and its growth over a million jobs. For Linux."""
    try:
        with server(dsn) as server_dsn, site(server_dsn) as place:
            where = machine(server_dsn)
            readings = [_above_python(place, samples), _growth(place, jobs)]
            if not readings[-1].met:
                readings[-1] = _growth(place, jobs)  # only what fails is run again, and then stands
    except Incorrect as error:
        click.echo(f"incorrect: {error}", err=True)
        sys.exit(1)
    table = readings_table(f"memory: PostgreSQL {where.server}, Python {where.python}, {where.cpus} CPUs")
    for reading in readings:
        if as_json:
            click.echo(reading.to_json(where))
        table.add_row(*reading.row())
    if not as_json:
        _output.print(table)


def _above_python(place: Site, samples: int) -> Reading:
    found = []
    for _ in range(samples):
        _fill(place, FIRST)
        with _python() as bare, _worker(place.dsn) as worker:
            *_, last = _watch(place, worker, FIRST)
            found.append(last.memory - resident(bare.pid))
        _check(place, FIRST)
    return Reading.of(f"memory, a worker with {SLOTS} slots above Python", "MiB", found, ABOVE_PYTHON)


def _growth(place: Site, jobs: int) -> Reading:
    _fill(place, jobs)
    with _worker(place.dsn) as worker:
        looks = list(_watch(place, worker, jobs))
    _check(place, jobs)
    tenths = [
        statistics.median(
            [look.memory for look in looks if tenth < look.jobs * 10 / jobs <= tenth + 1]
            or [looks[-1].memory]
        )
        for tenth in range(10)
    ]
    _notes.print("MiB by tenths of the jobs: " + ", ".join(f"{memory:.1f}" for memory in tenths))
    grown = tenths[-1] - tenths[1]
    return Reading.of(f"memory, growth over {jobs:,} jobs", "MiB", [grown], GROWTH)


@frozen
class _Look:
    """How many jobs a worker had claimed, and the MiB that it took."""

    jobs: int
    memory: float


def _watch(place: Site, worker: subprocess.Popen[bytes], jobs: int) -> Iterator[_Look]:
    """Look at *worker* every now and then, until it has settled *jobs* jobs, and once after."""
    before = _fences(place)
    claimed, since = 0, time.monotonic()
    while True:
        time.sleep(_EVERY)
        if worker.poll() is not None:
            raise Incorrect(f"the worker ended with exit code {worker.returncode}")
        now = _fences(place) - before
        if now != claimed:
            claimed, since = now, time.monotonic()
        elif time.monotonic() > since + _PATIENCE:
            raise Incorrect(f"{claimed} of {jobs} jobs were claimed, and no other for {_PATIENCE:g} s")
        yield _Look(claimed, resident(worker.pid))
        if claimed >= jobs and not stock.count(place.conn, "running"):
            yield _Look(claimed, resident(worker.pid))
            return


def _fences(place: Site) -> int:
    """How many attempts there have been. To count a million rows at every look would slow the worker."""
    [(count,)] = place.conn.execute("select last_value - (not is_called)::int from taskq.fence").fetchall()
    return int(count)


def _fill(place: Site, jobs: int) -> None:
    product.clear(place.conn)
    stock.queued(place.conn, jobs)
    stock.tidy(place.conn)


def _check(place: Site, jobs: int) -> None:
    if stock.count(place.conn, "finished") != jobs:
        raise Incorrect("not all jobs have finished")
    stock.expect_integrity(place.conn)


def resident(pid: int) -> float:
    """Return the MiB of memory that a process has in use; pages that it shares count in full."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    [kib] = [int(line.split()[1]) for line in lines if line.startswith("Rss:")]
    return kib / _MIB


@contextmanager
def _python() -> Iterator[subprocess.Popen[bytes]]:
    """Lend an interpreter that has imported nothing."""
    program = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


@contextmanager
def _worker(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """Lend a worker as a user starts it; stopped softly at the end."""
    command = (
        *(str(Path(sys.executable).with_name("taskq-sync")), "worker", "--app", "benchmarks.application:tq"),
        *("--slots", str(SLOTS), "--log-level", "warning"),
    )
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "TASKQ_"))}
    environment = {**clean, "TASKQ_DSN": dsn, "PYTHONPATH": str(_REPOSITORY)}
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()
    if process.returncode:
        raise Incorrect(f"the worker ended with exit code {process.returncode}")
