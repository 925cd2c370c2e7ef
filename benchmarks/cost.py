"""What each stage of a job costs the server: processor, write-ahead log, rows and index entries. There is no floor."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product, stock
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site
from benchmarks.wal import Log

#: Rows per call, and the jobs of a run.
ROWS = {1: 2_000, 100: 20_000}

#: Settled by one call in a setup.
_AT_ONCE = 500

#: (job_id, attempt_id) of what is running; empty in stages that need none.
Attempts = Sequence[tuple[int, int]]


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Every stage, one by one and in batches."""
    for rows, default in ROWS.items():
        jobs = scale.size(default)
        for name in _STAGES:
            label = f"cost, {name}, rows {rows}"
            yield Benchmark(
                measures=(
                    Measure(name=f"{label}, server CPU", unit="us/job", cost=True),
                    Measure(name=f"{label}, WAL", unit="bytes/job", cost=True),
                    Measure(name=f"{label}, rows written", unit="rows/job", cost=True),
                    Measure(name=f"{label}, index entries", unit="entries/job", cost=True),
                ),
                product=_Side(site, name, rows, jobs),
                floor=None,
            )


@frozen(kw_only=True)
class Stage:
    """One step of a job. *call* does it once, with so many attempts or for so many jobs.

    *begins_in* and *ends_in* are the tables that the jobs stand in before and after, None = there are none.
    """

    call: Callable[[psycopg.Connection[Any], Attempts, int], None]
    begins_in: str | None
    ends_in: str | None


def _enqueue(conn: psycopg.Connection[Any], attempts: Attempts, rows: int) -> None:
    payload = json.dumps(product.payload(0))
    if rows == 1:
        conn.execute(
            "select job_id from taskq.enqueue(%s, %s, %s::jsonb)", (product.QUEUE, product.TASK, payload)
        )
        return
    jobs = [{"task": product.TASK, "payload": product.payload(number)} for number in range(rows)]
    conn.execute(
        "select job_id from taskq.enqueue_many(%s, %s::jsonb)", (product.QUEUE, json.dumps(jobs))
    ).fetchall()


def _claim(conn: psycopg.Connection[Any], attempts: Attempts, rows: int) -> None:
    if len(stock.claim(conn, rows)) != rows:
        raise Incorrect(f"a claim brought less than {rows} jobs")


def _beat(conn: psycopg.Connection[Any], attempts: Attempts, rows: int) -> None:
    job_ids, attempt_ids = zip(*attempts, strict=True)
    states = conn.execute(
        "select state from taskq.heartbeat('benchmark', %s::bigint[], %s::bigint[])",
        (list(job_ids), list(attempt_ids)),
    ).fetchall()
    if set(states) != {("ok",)}:
        raise Incorrect(f"heartbeats were answered by {set(states)}")


def _prune(conn: psycopg.Connection[Any], attempts: Attempts, rows: int) -> None:
    [(pruned,)] = conn.execute("select taskq.prune(%s)", (rows,)).fetchall()
    if pruned != rows:
        raise Incorrect(f"prune deleted {pruned} jobs and not {rows}")


def _settle(verb: str, **more: object) -> Callable[[psycopg.Connection[Any], Attempts, int], None]:
    def call(conn: psycopg.Connection[Any], attempts: Attempts, rows: int) -> None:
        stock.settle(conn, attempts, verb=verb, **more)

    return call


_STAGES = {
    "enqueue": Stage(call=_enqueue, begins_in=None, ends_in="ready"),
    "claim": Stage(call=_claim, begins_in="ready", ends_in="running"),
    "heartbeat": Stage(call=_beat, begins_in="running", ends_in="running"),
    "complete": Stage(call=_settle("complete"), begins_in="running", ends_in="finished"),
    "fail and wait for another attempt": Stage(
        call=_settle("fail", error="ValueError: no such user"), begins_in="running", ends_in="ready"
    ),
    "prune": Stage(call=_prune, begins_in="finished", ends_in=None),
}


@frozen
class _Do:
    """A client: does the stage for all jobs. Returns the seconds of processor that its server process took."""

    name: str
    attempts: Attempts
    rows: int
    jobs: int

    def __call__(self, conn: psycopg.Connection[Any]) -> float:
        call = _STAGES[self.name].call
        before = _processor(conn)
        for first in range(0, self.jobs, self.rows):
            call(conn, self.attempts[first : first + self.rows], self.rows)
        return _processor(conn) - before


def _processor(conn: psycopg.Connection[Any]) -> float:
    try:
        text = Path(f"/proc/{conn.info.backend_pid}/schedstat").read_text()
    except OSError:
        raise Incorrect(
            "the processor time of a server process is only known on Linux, on its own machine"
        ) from None
    return int(text.split()[0]) / 1e9


@define
class _Side:
    site: Site
    name: str
    rows: int
    jobs: int
    attempts: Attempts = field(init=False, factory=list)

    def set_up(self) -> None:
        stage, conn = _STAGES[self.name], self.site.conn
        product.clear(conn)
        if stage.begins_in is not None:
            stock.queued(conn, self.jobs)
        if stage.begins_in in ("running", "finished"):
            self.attempts = product.claim_all(conn)
        if stage.begins_in == "finished":
            for first in range(0, len(self.attempts), _AT_ONCE):
                stock.settle(conn, self.attempts[first : first + _AT_ONCE])
            conn.execute("update taskq.finished set purge_at = taskq.clock()")
        stock.tidy(conn)
        conn.execute("checkpoint")

    def call(self) -> Sequence[float]:
        log = Log(self.site.conn)
        shift = self.site.crew.run(1, _Do(self.name, self.attempts, self.rows, self.jobs))
        written = log.written()
        return (
            shift.results[0] * 1e6 / self.jobs,
            written.size / self.jobs,
            written.rows / self.jobs,
            written.index_entries / self.jobs,
        )

    def check(self) -> None:
        table = _STAGES[self.name].ends_in
        found = {name: stock.count(self.site.conn, name) for name in ("ready", "running", "finished")}
        if found != {name: self.jobs if name == table else 0 for name in found}:
            raise Incorrect(f"of {self.jobs} jobs there are {found}, after the stage that ends in {table}")
        stock.expect_integrity(self.site.conn)
