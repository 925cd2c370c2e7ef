"""Claims while another session keeps every dead row alive: it holds a snapshot from before the first job.

300,000 jobs go through the queue before anything is measured. What is measured is thus what comes after them, the worst
of such a run, and not its mean.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product, stock
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site, site

#: Jobs that have been enqueued, claimed and completed under the snapshot, before the runs.
PASSED = 300_000

#: The least that must be left of the rate of claims.
LIMIT = 0.5

#: Rows per call, and the jobs of a run, which are claimed and completed by turns.
ROWS = {100: 10_000, 1: 500}


def benchmarks(place: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Batches and singles. Where no snapshot is held is a database beside: a snapshot counts in its own only."""
    passed = 1_000 if scale.smoke else PASSED
    with site(place.dsn) as beside, closing(psycopg.connect(place.dsn)) as holder:
        held, clean = _Queue(place, passed, holder), _Queue(beside, passed)
        for rows, jobs in ROWS.items():
            size = scale.size(jobs)
            name = "batches of 100" if rows > 1 else "singles"
            yield Benchmark(
                measures=(
                    Measure(name=f"xmin, claim, {name}", unit="jobs/s", limit=LIMIT),
                    Measure(name=f"xmin, claim and complete, {name}", unit="jobs/s"),
                ),
                product=_Pass(held, rows, size),
                floor=_Pass(clean, rows, size),
            )


@define
class _Queue:
    """A queue through which *passed* jobs have gone, all since *holder* took its snapshot."""

    site: Site
    passed: int
    holder: psycopg.Connection[Any] | None = None
    ready: bool = field(init=False, default=False)

    def fill(self, jobs: int) -> None:
        if not self.ready:
            self._make_ready()
            self.ready = True
        stock.queued(self.site.conn, jobs)
        stock.tidy(self.site.conn)

    def expect_snapshot(self) -> None:
        """Raise `Incorrect` if the snapshot is no longer held."""
        if self.holder is not None:
            [(held,)] = self.site.conn.execute(
                "select backend_xmin is not null from pg_stat_activity where pid = %s",
                (self.holder.info.backend_pid,),
            ).fetchall()
            if not held:
                raise Incorrect("the snapshot was let go")

    def _make_ready(self) -> None:
        if self.holder is not None:
            self.holder.execute("set transaction isolation level repeatable read")
            self.holder.execute("select 1")
        for first in range(0, self.passed, product.CHUNK):
            jobs = min(product.CHUNK, self.passed - first)
            stock.queued(self.site.conn, jobs)
            self.site.crew.run(1, _Take(jobs, 100))


@frozen
class _Take:
    """A client: claims and completes by turns. Returns the ids, and the seconds in claims and in both."""

    jobs: int
    rows: int

    def __call__(self, conn: psycopg.Connection[Any]) -> tuple[list[int], float, float]:
        claimed: list[int] = []
        claiming = 0.0
        began = time.perf_counter()
        while len(claimed) < self.jobs:
            before = time.perf_counter()
            found = stock.claim(conn, self.rows)
            claiming += time.perf_counter() - before
            if not found:
                raise Incorrect(f"{len(claimed)} of {self.jobs} jobs were claimed, and then none")
            stock.settle(conn, found)
            claimed += [job_id for job_id, _ in found]
        return claimed, claiming, time.perf_counter() - began


@define
class _Pass:
    queue: _Queue
    rows: int
    jobs: int
    done: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.queue.fill(self.jobs)

    def call(self) -> Sequence[float]:
        [(self.done, claiming, both)] = self.queue.site.crew.run(1, _Take(self.jobs, self.rows)).results
        return (self.jobs / claiming, self.jobs / both)

    def check(self) -> None:
        product.expect_once(set(self.done), self.done, "claimed")
        left = [stock.count(self.queue.site.conn, table) for table in ("ready", "running")]
        if left != [0, 0] or len(self.done) != self.jobs:
            raise Incorrect(f"{len(self.done)} of {self.jobs} jobs were done, {left} wait and run")
        self.queue.expect_snapshot()
