"""Settle throughput: one client that ends running jobs, in batches of one verb."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product, raw
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site

#: Verdicts per call, and the jobs of a run: a run takes about a second.
BATCHES = {1: 3_000, 10: 10_000, 100: 20_000, 500: 20_000}


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Every size of a batch, all verdicts `complete` without a result."""
    for batch, jobs in BATCHES.items():
        size = scale.size(jobs, smoke=max(200, batch))
        yield Benchmark(
            measures=(Measure(name=f"settle, complete, batch {batch}", unit="jobs/s"),),
            product=_Product(site, batch, size),
            floor=_Floor(site, batch, size),
        )


@frozen
class _SettleAll:
    """The client of the product: *attempts* are (job_id, attempt_id)."""

    attempts: Sequence[tuple[int, int]]
    batch: int

    def __call__(self, conn: psycopg.Connection[Any]) -> list[tuple[int, str]]:
        answers: list[tuple[int, str]] = []
        for first in range(0, len(self.attempts), self.batch):
            document = [
                {"job_id": job_id, "attempt_id": attempt_id, "verb": "complete"}
                for job_id, attempt_id in self.attempts[first : first + self.batch]
            ]
            query = {"worker_id": "benchmark", "settlements": json.dumps(document)}
            answers += [(row[0], row[2]) for row in conn.execute(product.statements.settle, query)]
        return answers


@frozen
class _FinishAllRaw:
    """The client of the floor."""

    ids: Sequence[int]
    batch: int

    def __call__(self, conn: psycopg.Connection[Any]) -> None:
        for first in range(0, len(self.ids), self.batch):
            conn.execute(raw.DONE, (self.ids[first : first + self.batch],))


@define
class _Product:
    site: Site
    batch: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)
    attempts: list[tuple[int, int]] = field(init=False, factory=list)
    answers: list[tuple[int, str]] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = product.fill(self.site.conn, self.jobs)
        self.attempts = product.claim_all(self.site.conn)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, _SettleAll(self.attempts, self.batch))
        self.answers = shift.results[0]
        return (len(self.answers) / shift.seconds,)

    def check(self) -> None:
        product.expect_once(self.ids, (job_id for job_id, _ in self.answers), "settled")
        unlike = [answer for answer in self.answers if answer[1] != "ok"]
        if unlike:
            raise Incorrect(f"{len(unlike)} answers of settle are not ok, the first: {unlike[0]}")
        product.expect_place(self.site.conn, "finished", self.ids)


@define
class _Floor:
    site: Site
    batch: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = raw.fill(self.site.conn, self.jobs, state=raw.CLAIMED)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, _FinishAllRaw(self.ids, self.batch))
        return (len(self.ids) / shift.seconds,)

    def check(self) -> None:
        raw.expect_state(self.site.conn, self.ids, raw.FINISHED)
