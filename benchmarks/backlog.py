"""What lies in the tables beside the jobs that are taken: a million that wait, or five million that are done."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import burst, product, stock
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site, site

SMALL, BIG = 10_000, 1_000_000
KEPT = 5_000_000

#: The least that must be left of the rate; and no more than a tenth of the buffers on top.
RATE, BUFFERS = 0.85, 1 / 1.1

#: Jobs of a run: less than are due of the small backlog.
JOBS = 4_000
ROWS = 100
SLOTS = 8

#: Claims of which the buffers are counted, after those that are timed.
COUNTED = 5

_FIRST = "select min(id) from taskq.ready"

#: What a run has taken goes back to where it stood.
_PUT_BACK = """
with taken as (
  delete from taskq.running returning id, queue, task, priority, scheduled_at),
done as (
  delete from taskq.finished where id >= %s returning id, queue, task, priority, scheduled_at)
insert into taskq.ready (id, queue, task, priority, scheduled_at)
select * from taken union all select * from done
"""


def benchmarks(place: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Claims and drains of both kinds. The small tables are in a database beside the big ones."""
    jobs = scale.size(JOBS)
    small = 20 * jobs if scale.smoke else max(SMALL, 5 * jobs // 2)
    big, kept = (10 * small, 10 * small) if scale.smoke else (BIG, KEPT)
    with site(place.dsn) as beside:
        tables = _Tables(beside, queued=small)
        for what, full in (
            (f"{big:,} queued", _Tables(place, queued=big)),
            (f"{kept:,} finished kept", _Tables(place, queued=small, finished=kept)),
        ):
            yield Benchmark(
                measures=(
                    Measure(name=f"backlog, claim, {what}", unit="jobs/s", limit=RATE),
                    Measure(
                        name=f"backlog, claim, {what}, buffers", unit="buffers/job", cost=True, limit=BUFFERS
                    ),
                ),
                product=_Claim(full, jobs),
                floor=_Claim(tables, jobs),
            )
            yield Benchmark(
                measures=(Measure(name=f"backlog, drain, {what}", unit="jobs/s", limit=RATE),),
                product=_Drain(full, jobs),
                floor=_Drain(tables, jobs),
            )
            full.expect_integrity()
        tables.expect_integrity()


@define
class _Tables:
    """A database with so many jobs; filled when first needed, later only what was taken is put back."""

    site: Site
    queued: int
    finished: int = 0
    first: int | None = field(init=False, default=None)

    def fill(self) -> None:
        conn = self.site.conn
        if self.first is None:
            product.clear(conn)
            if self.finished:
                stock.finished(conn, self.finished)
            stock.queued(conn, self.queued, priorities=stock.PRIORITIES, half_later=True)
            [(self.first,)] = conn.execute(_FIRST).fetchall()
            stock.tidy(conn)
            conn.execute("checkpoint")
        else:
            conn.execute(_PUT_BACK, (self.first,))
            stock.tidy(conn)

    def expect(self, table: str, jobs: int) -> None:
        """Raise `Incorrect` unless *jobs* jobs of the queue stand in *table*, and all others wait."""
        found = {name: stock.count(self.site.conn, name) for name in (table, "ready")}
        wanted = {table: jobs, "ready": self.queued - jobs}
        if found != wanted:
            raise Incorrect(f"there are {found}, not {wanted}")

    def expect_integrity(self) -> None:
        """Raise `Incorrect` if the tables do not agree. It reads all of them."""
        if self.first is not None:
            stock.expect_integrity(self.site.conn)


@frozen
class _ClaimSome:
    """A client: claims *jobs* jobs as fast as it can, and then some more of which it counts the buffers.

    Returns the ids, the seconds of the first ones, and the buffers of each job of the last ones.
    """

    jobs: int

    def __call__(self, conn: psycopg.Connection[Any]) -> tuple[list[int], float, float]:
        claimed: list[int] = []
        began = time.perf_counter()
        while len(claimed) < self.jobs:
            claimed += [job_id for job_id, _ in stock.claim(conn, ROWS)]
        seconds = time.perf_counter() - began
        return (
            claimed,
            seconds,
            sum(stock.claim_buffers(conn, ROWS) for _ in range(COUNTED)) / (COUNTED * ROWS),
        )


@define
class _Claim:
    tables: _Tables
    jobs: int
    claimed: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.tables.fill()

    def call(self) -> Sequence[float]:
        [(self.claimed, seconds, buffers)] = self.tables.site.crew.run(1, _ClaimSome(self.jobs)).results
        return (self.jobs / seconds, buffers)

    def check(self) -> None:
        product.expect_once(set(self.claimed), self.claimed, "claimed")
        self.tables.expect("running", self.jobs + COUNTED * ROWS)


@define
class _Drain:
    tables: _Tables
    jobs: int

    def set_up(self) -> None:
        self.tables.fill()

    def call(self) -> Sequence[float]:
        return (burst.drain(self.tables.site, self.jobs, slots=SLOTS),)

    def check(self) -> None:
        self.tables.expect("finished", self.jobs)
