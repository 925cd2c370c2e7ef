"""Draining a queue: worker processes run jobs that do nothing, from the instant these are due to the last settle."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product, raw
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site
from benchmarks.workers import Usage, Workers

SLOTS = 8
JOBS = 50_000

#: Worker processes, and what of the rate of one raw client must be reached. Four must not be below two.
PROCESSES = {1: 0.4, 2: 0.6, 4: None}

#: At most so many microseconds of Python for each job.
CPU = 30.0

#: Jobs per claim and per settle of the floor.
BATCH = 100

_LAST = "select max(finished_at), count(*) filter (where attempt_count > 1) from taskq.finished"


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Every number of processes, each against one raw client; then four processes against two."""
    size = scale.size(JOBS)
    for processes, limit in PROCESSES.items():
        name = f"drain, processes {processes}"
        with closing(Workers(site.dsn, processes=processes, slots=SLOTS)) as workers:
            yield Benchmark(
                measures=(
                    Measure(name=name, unit="jobs/s", limit=limit),
                    Measure(name=f"{name}, Python CPU per job", unit="us", cost=True, most=CPU),
                ),
                product=Drain(site, workers, size),
                floor=_Floor(site, size),
            )
    with closing(_Staffed(site, 4, size)) as four, closing(_Staffed(site, 2, size)) as two:
        yield Benchmark(
            measures=(Measure(name="drain, processes 4 against 2", unit="jobs/s", limit=1.0),),
            product=four,
            floor=two,
        )


@define
class Drain:
    """The side of the product: *workers* of the site's database, or of the same one by another way."""

    site: Site
    workers: Workers
    jobs: int
    ids: list[int] = field(init=False, factory=list)
    due_at: datetime = field(init=False)
    usage: Usage = field(init=False)
    again: int = field(init=False, default=0)
    preparation: float = field(init=False, default=2.0)

    def set_up(self) -> None:
        """Fill the queue with jobs that are due at one instant, and be ready before it."""
        while True:
            row = self.site.conn.execute(
                "select taskq.clock() + %s", (timedelta(seconds=self.preparation),)
            ).fetchone()
            assert row is not None
            self.due_at = row[0]
            self.ids = product.fill(self.site.conn, self.jobs, scheduled_at=self.due_at)
            self.workers.usage()
            if self._seconds_to_go() > 0.2:
                return
            product.await_empty(self.site.conn)
            self.preparation *= 2

    def call(self) -> Sequence[float]:
        product.await_empty(self.site.conn)
        row = self.site.conn.execute(_LAST).fetchone()
        assert row is not None
        ended_at, self.again = row
        self.usage = self.workers.usage()
        seconds = (ended_at - self.due_at).total_seconds()
        return (self.jobs / seconds, self.usage.cpu * 1e6 / self.jobs)

    def check(self) -> None:
        product.expect_once(range(self.jobs), self.usage.ran, "run")
        product.expect_place(self.site.conn, "finished", self.ids)
        if self.again:
            raise Incorrect(f"{self.again} jobs took more than one attempt")

    def _seconds_to_go(self) -> float:
        row = self.site.conn.execute("select %s - clock_timestamp()", (self.due_at,)).fetchone()
        assert row is not None
        return float(row[0].total_seconds())


@define
class _Staffed:
    """A side with processes of its own, there only while it runs, so that two of them can be compared."""

    site: Site
    processes: int
    jobs: int
    side: Drain | None = field(init=False, default=None)
    preparation: float = field(init=False, default=2.0)

    def set_up(self) -> None:
        workers = Workers(self.site.dsn, processes=self.processes, slots=SLOTS)
        self.side = Drain(self.site, workers, self.jobs)
        self.side.preparation = self.preparation
        self.side.set_up()
        self.preparation = self.side.preparation

    def call(self) -> Sequence[float]:
        assert self.side is not None
        return self.side.call()[:1]

    def check(self) -> None:
        assert self.side is not None
        self.side.check()
        self.close()

    def close(self) -> None:
        """Stop the workers, if they run."""
        if self.side is not None:
            self.side.workers.close()
            self.side = None


@frozen
class _DrainRaw:
    """The client of the floor: claims and finishes by turns. Returns the ids."""

    def __call__(self, conn: psycopg.Connection[Any]) -> list[int]:
        done: list[int] = []
        while found := conn.execute(raw.CLAIM, (BATCH,)).fetchall():
            ids = [row[0] for row in found]
            conn.execute(raw.DONE, (ids,))
            done += ids
        return done


@define
class _Floor:
    site: Site
    jobs: int
    ids: list[int] = field(init=False, factory=list)
    done: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = raw.fill(self.site.conn, self.jobs)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, _DrainRaw())
        self.done = shift.results[0]
        return (self.jobs / shift.seconds, shift.cpu * 1e6 / self.jobs)

    def check(self) -> None:
        product.expect_once(self.ids, self.done, "done by the floor")
        raw.expect_state(self.site.conn, self.ids, raw.FINISHED)
