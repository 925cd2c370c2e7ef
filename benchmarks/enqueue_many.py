"""Bulk enqueue: one client that puts many jobs in, against COPY of the same rows."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.crew import Task
from benchmarks.site import Site
from taskq_sync import TaskQ
from taskq_sync.model import JobRequest
from taskq_sync.task import Sender

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
    """Jobs without and with a unique key each, against both floors; then by the client, as a user puts them in."""
    size = scale.size(JOBS)
    both = _Floor(site, size, _CopyBoth(size), ("taskq.jobs", "taskq.ready"))
    one = _Floor(site, size, _CopyOne(size), ("raw_bulk",))
    plain, unique = _EnqueueAll(size, unique=False), _EnqueueAll(size, unique=True)
    rows: tuple[tuple[str, Task[list[int]], _Floor, float | None], ...] = (
        ("enqueue_many, against COPY into both tables", plain, both, 0.5),
        ("enqueue_many, against COPY into one table", plain, one, 0.3),
        ("enqueue_many, unique keys, against COPY into one table", unique, one, 0.15),
        ("enqueue_many, by the client", _ByClient(site.dsn, size, unique=False), one, None),
        ("enqueue_many, by the client, unique keys", _ByClient(site.dsn, size, unique=True), one, None),
    )
    for name, task, floor, limit in rows:
        yield Benchmark(
            measures=(Measure(name=name, unit="jobs/s", limit=limit),),
            product=_Product(site, size, task),
            floor=floor,
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
class _ByClient:
    """The client of the product as a user writes it: makes the jobs, and a connection; returns the ids."""

    dsn: str
    count: int
    unique: bool

    def __call__(self, conn: psycopg.Connection[Any]) -> list[int]:
        with TaskQ(self.dsn) as tq:

            @tq.task(queue=product.QUEUE, name=product.TASK)
            def noop(number: int, text: str) -> None: ...

            text = str(product.payload(0)["text"])
            jobs = (self._job(noop, number, text) for number in range(self.count))
            return [result.job_id for result in tq.enqueue_many(jobs)]

    def _job(self, sender: Sender[[int, str]], number: int, text: str) -> JobRequest:
        if self.unique:
            sender = sender.using(unique_key=f"key-{number}")
        return sender.job(number, text)


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
    task: Task[list[int]]
    ids: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        product.clear(self.site.conn)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, self.task)
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
