"""Claim throughput: client processes that take what is due until nothing is left, nothing else running."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import pgbench, product, raw
from benchmarks.bare import BareClaim
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale, Side
from benchmarks.crew import Shift
from benchmarks.site import Site

CLIENTS = (1, 2, 4, 8, 16, 32)

#: Rows per call, and the jobs of a run: a run takes about a second.
ROWS = {1: 1_000, 10: 5_000, 100: 20_000, 500: 30_000}

#: What of the floor must be reached, and by how many clients at most.
LIMIT, LIMITED_TO = 0.6, 8

#: Many clients must keep so much of the rate of a few.
CROWD, FEW, KEPT = 32, 4, 0.65
CROWD_ROWS, CROWD_JOBS = 100, 40_000

#: Seconds to wait when others have locked all that is left.
_PAUSE = 0.002

#: (job_id, attempt_id) of each claimed job; the floor has no attempts.
Claimed = list[tuple[int, int]]


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Every number of clients with every number of rows, the bare move, many clients against a few, pgbench."""
    for rows, jobs in ROWS.items():
        for clients in CLIENTS[:3] if scale.smoke else CLIENTS:
            size = scale.size(jobs)
            name = f"claim, clients {clients}, rows {rows}"
            limit = LIMIT if clients <= LIMITED_TO else None
            yield Benchmark(
                measures=(Measure(name=name, unit="jobs/s", limit=limit),),
                product=_Product(site, clients, rows, size),
                floor=_Floor(site, clients, rows, size),
            )
    for rows, jobs in ROWS.items():
        size = scale.size(jobs)
        yield Benchmark(
            measures=(Measure(name=f"claim, bare move, clients 1, rows {rows}", unit="jobs/s"),),
            product=BareClaim(site, rows, size),
            floor=_Floor(site, 1, rows, size),
        )
    crowd, few = (4, 2) if scale.smoke else (CROWD, FEW)
    yield from _crowds(site, crowd, few, scale.size(CROWD_JOBS))
    yield from _pgbench(site, scale.size(CROWD_JOBS))


def _crowds(site: Site, crowd: int, few: int, jobs: int) -> Iterator[Benchmark]:
    """Many clients of one kind against a few of the same."""
    sides: dict[str, tuple[type[_Product] | type[_Floor], float | None]] = {
        "": (_Product, KEPT),
        " of the raw loop": (_Floor, None),
    }
    for whose, (side, limit) in sides.items():
        name = f"claim, {crowd} clients{whose} against {few}, rows {CROWD_ROWS}"
        yield Benchmark(
            measures=(Measure(name=name, unit="jobs/s", limit=limit),),
            product=side(site, crowd, CROWD_ROWS, jobs),
            floor=side(site, few, CROWD_ROWS, jobs),
        )


def _pgbench(site: Site, jobs: int) -> Iterator[Benchmark]:
    """The floor's statement without Python: shows how much of the floor is its client."""
    program = pgbench.program()
    if program is None:
        return
    for clients in (1, 8):
        name = f"claim, pgbench, clients {clients}, rows {CROWD_ROWS}"
        side: Side = _Pgbench(site, program, clients, jobs)
        yield Benchmark(measures=(Measure(name=name, unit="jobs/s"),), product=side, floor=None)


@frozen
class _ClaimAll:
    """A client of the product: until nothing is left that others have not claimed."""

    rows: int

    def __call__(self, conn: psycopg.Connection[Any]) -> Claimed:
        claimed: Claimed = []
        query = {"queues": [product.QUEUE], "worker_id": "benchmark", "limit": self.rows, "lease": None}
        while True:
            found = conn.execute(product.statements.claim, query).fetchall()
            claimed += [(row[0], row[1]) for row in found]
            if not found:
                hints = conn.execute(product.statements.poll_hint, {"queues": [product.QUEUE]}).fetchall()
                if all(hint[1] != "ready" for hint in hints):
                    return claimed
                time.sleep(_PAUSE)


@frozen
class _ClaimAllRaw:
    """A client of the floor: until nothing is left that others have not claimed."""

    rows: int

    def __call__(self, conn: psycopg.Connection[Any]) -> Claimed:
        claimed: Claimed = []
        while True:
            found = conn.execute(raw.CLAIM, (self.rows,)).fetchall()
            claimed += [(row[0], 0) for row in found]
            if not found:
                if conn.execute(raw.IS_LEFT).fetchone() == (False,):
                    return claimed
                time.sleep(_PAUSE)


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


@define
class _Pgbench:
    site: Site
    program: str
    clients: int
    jobs: int

    def set_up(self) -> None:
        raw.fill(self.site.conn, self.jobs)

    def call(self) -> Sequence[float]:
        calls = max(1, self.jobs // CROWD_ROWS // self.clients)
        script = raw.CLAIM % CROWD_ROWS
        seconds = pgbench.run(self.program, self.site.dsn, script, clients=self.clients, calls=calls)
        return (self._claimed() / seconds,)

    def check(self) -> None:
        if not 0 < self._claimed() <= self.jobs:
            raise Incorrect(f"pgbench claimed {self._claimed()} of {self.jobs} rows")

    def _claimed(self) -> int:
        row = self.site.conn.execute(
            "select count(*) from raw_jobs where state = %s", (raw.CLAIMED,)
        ).fetchone()
        assert row is not None
        return int(row[0])


def _together(shift: Shift[Claimed]) -> Claimed:
    return [each for claimed in shift.results for each in claimed]
