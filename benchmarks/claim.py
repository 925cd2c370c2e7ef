"""Claim throughput: client processes that take what is due until nothing is left, nothing else running."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product, raw
from benchmarks.benchmark import Benchmark, Measure, Scale
from benchmarks.crew import Shift
from benchmarks.site import Site

CLIENTS = (1, 2, 4, 8)

#: Rows per call, and the jobs of a run: a run takes about a second.
ROWS = {1: 3_000, 10: 10_000, 100: 20_000}

#: (job_id, attempt_id) of each claimed job; the floor has no attempts.
Claimed = list[tuple[int, int]]


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Every number of clients with every number of rows."""
    for rows, jobs in ROWS.items():
        for clients in CLIENTS:
            size = scale.size(jobs)
            yield Benchmark(
                measures=(Measure(name=f"claim, clients {clients}, rows {rows}", unit="jobs/s"),),
                product=_Product(site, clients, rows, size),
                floor=_Floor(site, clients, rows, size),
            )


@frozen
class _ClaimAll:
    """A client of the product: until a claim brings nothing."""

    rows: int

    def __call__(self, conn: psycopg.Connection[Any]) -> Claimed:
        claimed: Claimed = []
        query = {"queues": [product.QUEUE], "worker_id": "benchmark", "limit": self.rows, "lease": None}
        while found := conn.execute(product.statements.claim, query).fetchall():
            claimed += [(row[0], row[1]) for row in found]
        return claimed


@frozen
class _ClaimAllRaw:
    """A client of the floor: until a claim brings nothing."""

    rows: int

    def __call__(self, conn: psycopg.Connection[Any]) -> Claimed:
        claimed: Claimed = []
        while found := conn.execute(raw.CLAIM, (self.rows,)).fetchall():
            claimed += [(row[0], 0) for row in found]
        return claimed


@define
class _Product:
    site: Site
    clients: int
    rows: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)
    claimed: Claimed = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = product.fill(self.site.conn, self.jobs)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(self.clients, _ClaimAll(self.rows))
        self.claimed = _together(shift)
        return (len(self.claimed) / shift.seconds,)

    def check(self) -> None:
        product.expect_once(self.ids, (job_id for job_id, _ in self.claimed), "claimed")
        fences = {attempt_id for _, attempt_id in self.claimed}
        product.expect_once(fences, (attempt_id for _, attempt_id in self.claimed), "fences")
        product.expect_place(self.site.conn, "running", self.ids)


@define
class _Floor:
    site: Site
    clients: int
    rows: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)
    claimed: Claimed = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = raw.fill(self.site.conn, self.jobs)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(self.clients, _ClaimAllRaw(self.rows))
        self.claimed = _together(shift)
        return (len(self.claimed) / shift.seconds,)

    def check(self) -> None:
        product.expect_once(self.ids, (job_id for job_id, _ in self.claimed), "claimed")
        raw.expect_state(self.site.conn, self.ids, raw.CLAIMED)


def _together(shift: Shift[Claimed]) -> Claimed:
    return [each for claimed in shift.results for each in claimed]
