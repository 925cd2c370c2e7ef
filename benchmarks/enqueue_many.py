"""Bulk enqueue: one client that puts many jobs in, against COPY of the same rows."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site

JOBS = 100_000

_JOBS = """
copy taskq.jobs (id, queue, task, payload, priority, max_attempts, backoff, backoff_max, lease, created_at, enqueued_by)
from stdin
"""
_READY = "copy taskq.ready (id, queue, task, priority, scheduled_at) from stdin"
_ONE = "copy raw_bulk (id, queue, task, payload) from stdin"
_ONE_TABLE = """
create table if not exists raw_bulk (
  id bigint primary key, queue text not null, task text not null, payload jsonb not null)
"""


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Plain jobs against both floors, then jobs with a unique key each."""
    size = scale.size(JOBS)
    yield Benchmark(
        measures=(Measure(name="enqueue_many, floor COPY into both tables", unit="jobs/s"),),
        product=_Product(site, size, unique=False),
        floor=_Floor(site, size, _CopyBoth(size), ("taskq.jobs", "taskq.ready")),
    )
    one = _Floor(site, size, _CopyOne(size), ("raw_bulk",))
    yield Benchmark(
        measures=(Measure(name="enqueue_many, floor COPY into one table", unit="jobs/s"),),
        product=_Product(site, size, unique=False),
        floor=one,
    )
    yield Benchmark(
        measures=(Measure(name="enqueue_many, unique keys, floor COPY into one table", unit="jobs/s"),),
        product=_Product(site, size, unique=True),
        floor=one,
    )


def _chunks(count: int) -> Iterator[range]:
    for first in range(0, count, product.CHUNK):
        yield range(first, min(first + product.CHUNK, count))


@frozen
class _EnqueueAll:
    """The client of the product; returns the ids."""

    count: int
    unique: bool

    def __call__(self, conn: psycopg.Connection[Any]) -> list[int]:
        ids: list[int] = []
        for numbers in _chunks(self.count):
            query = {"queue": product.QUEUE, "jobs": json.dumps(self._jobs(numbers)), "skip_wake": True}
            rows = conn.execute(product.statements.enqueue_many, query)
            ids += [job_id for _, status, job_id in rows if status == "created"]
        return ids

    def _jobs(self, numbers: range) -> list[dict[str, object]]:
        jobs: list[dict[str, object]] = [
            {"task": product.TASK, "payload": product.payload(number)} for number in numbers
        ]
        if self.unique:
            for number, job in zip(numbers, jobs, strict=True):
                job["unique_key"] = f"key-{number}"
        return jobs


@frozen
class _CopyBoth:
    """The client of the floor that writes the rows that the product writes; one transaction for each chunk."""

    count: int

    def __call__(self, conn: psycopg.Connection[Any]) -> None:
        queue, task = product.QUEUE, product.TASK
        for numbers in _chunks(self.count):
            requests = "".join(
                f"{number}\t{queue}\t{task}\t{json.dumps(product.payload(number))}"
                "\t0\t5\t30 s\t1 h\t60 s\tnow\tbenchmark\n"
                for number in numbers
            )
            ready = "".join(f"{number}\t{queue}\t{task}\t0\tnow\n" for number in numbers)
            with conn.transaction(), conn.cursor() as cursor:
                with cursor.copy(_JOBS) as copy:
                    copy.write(requests)
                with cursor.copy(_READY) as copy:
                    copy.write(ready)


@frozen
class _CopyOne:
    """The client of the floor that writes one narrow table."""

    count: int

    def __call__(self, conn: psycopg.Connection[Any]) -> None:
        queue, task = product.QUEUE, product.TASK
        for numbers in _chunks(self.count):
            rows = "".join(
                f"{number}\t{queue}\t{task}\t{json.dumps(product.payload(number))}\n" for number in numbers
            )
            with conn.cursor().copy(_ONE) as copy:
                copy.write(rows)


@define
class _Product:
    site: Site
    count: int
    unique: bool = field(kw_only=True)
    ids: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        product.clear(self.site.conn)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, _EnqueueAll(self.count, self.unique))
        self.ids = shift.results[0]
        return (self.count / shift.seconds,)

    def check(self) -> None:
        if len(self.ids) != self.count:
            raise Incorrect(f"{len(self.ids)} of {self.count} jobs are called created")
        product.expect_place(self.site.conn, "ready", self.ids)


@define
class _Floor:
    site: Site
    count: int
    task: _CopyBoth | _CopyOne
    tables: tuple[str, ...]

    def set_up(self) -> None:
        self.site.conn.execute(_ONE_TABLE)
        self.site.conn.execute(f"truncate {', '.join(self.tables)}".encode())

    def call(self) -> Sequence[float]:
        return (self.count / self.site.crew.run(1, self.task).seconds,)

    def check(self) -> None:
        for table in self.tables:
            row = self.site.conn.execute(f"select count(*) from {table}".encode()).fetchone()
            if row != (self.count,):
                raise Incorrect(f"the floor wrote {row} of {self.count} rows into {table}")
