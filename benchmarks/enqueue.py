"""Single enqueues by the client: each committed, or in a caller's transaction; and what listeners and sleepers cost."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import click
import psycopg
from attrs import define, field

from benchmarks import counting, pgbench, product, sleepers
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale, Side
from benchmarks.site import Site
from taskq_sync import TaskQ
from taskq_sync.task import Task

#: Threads, the jobs of a run, and what of the floor must be reached.
THREADS = ((1, 1_000, 0.7), (8, 4_000, 0.6))

#: Jobs of a caller's transaction.
TOGETHER = 100

#: Sessions that listen and do not sleep, and what they must leave of the rate.
LISTENERS, LEFT = 50, 0.9

#: Workers that sleep, and the statements that one enqueue may cause.
SLEEPERS, STATEMENTS = 50, 100

#: Seconds after which sleeping workers do what they do for ever, and after which an enqueue causes nothing more.
_SETTLED, _OVER = 25.0, 4.0

_TABLES = """
create table if not exists raw_requests (like taskq.jobs including all);
create table if not exists raw_ready (like taskq.ready including all);
truncate raw_requests, raw_ready
"""
_INSERT = """
with request as (
  insert into raw_requests (queue, task, payload, priority, max_attempts, backoff, backoff_max, lease, created_at,
                            enqueued_by)
  values (%s, %s, %s, 0, 5, '30 s', '1 h', '60 s', now(), session_user)
  returning id, queue, task, priority, created_at)
insert into raw_ready (id, queue, task, priority, scheduled_at)
select id, queue, task, priority, created_at from request
returning id
"""


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Each number of threads; in a transaction; with sessions that listen; with workers that sleep."""
    for threads, jobs, limit in THREADS:
        size = scale.size(jobs)
        name = f"enqueue, threads {threads}"
        with closing(_Client(site, threads, size)) as client, closing(_Raw(site, threads, size)) as floor:
            yield _benchmark(name, client, floor, limit)
    size = scale.size(THREADS[0][1])
    with (
        closing(_Client(site, 1, size, together=True)) as client,
        closing(_Raw(site, 1, size, together=True)) as floor,
    ):
        yield _benchmark("enqueue, in a transaction", client, floor)
    threads, jobs, _ = THREADS[-1]
    size = scale.size(jobs)
    listeners = 5 if scale.smoke else LISTENERS
    with closing(_Client(site, threads, size)) as client, closing(_Listened(client, listeners)) as listened:
        yield _benchmark(f"enqueue, {listeners} sessions listen, against none", listened, client, LEFT)
    yield from _pgbench(site, scale)
    yield from _to_sleepers(site, scale)


def _pgbench(site: Site, scale: Scale) -> Iterator[Benchmark]:
    """The floor without Python: shows how much of the floor is its client."""
    program = pgbench.program()
    if program is None:
        return
    for threads, jobs, _ in THREADS:
        yield Benchmark(
            measures=(Measure(name=f"enqueue, pgbench, clients {threads}", unit="jobs/s"),),
            product=_Pgbench(site, program, threads, scale.size(jobs)),
            floor=None,
        )


def _benchmark(name: str, side: Side, floor: Side, limit: float | None = None) -> Benchmark:
    return Benchmark(measures=(Measure(name=name, unit="jobs/s", limit=limit),), product=side, floor=floor)


def _to_sleepers(site: Site, scale: Scale) -> Iterator[Benchmark]:
    if not counting.is_possible(site.conn):
        click.echo("no pg_stat_statements on this server: statements of sleepers are not counted", err=True)
        return
    processes, each = (2, 2) if scale.smoke else (5, SLEEPERS // 5)
    product.clear(site.conn)
    counting.start(site.conn)
    try:
        with sleepers.sleepers(site.dsn, processes=processes, listening=True, each=each) as workers:
            time.sleep(1.0 if scale.smoke else _SETTLED)
            name = f"enqueue, statements of {processes * each} sleeping workers"
            yield Benchmark(
                measures=(Measure(name=name, unit="statements", cost=True, most=STATEMENTS),),
                product=_ToSleepers(site, workers),
                floor=None,
            )
    finally:
        counting.stop(site.conn)


@define
class _Sender(ABC):
    """A side with threads that each send their part of the jobs."""

    site: Site
    threads: int
    jobs: int
    together: bool = field(default=False, kw_only=True)  # in transactions of the caller's
    ids: list[int] = field(init=False, factory=list)

    def call(self) -> Sequence[float]:
        start = threading.Barrier(self.threads + 1)
        parts = [range(place, self.jobs, self.threads) for place in range(self.threads)]
        with ThreadPoolExecutor(self.threads) as pool:

            def work(place: int) -> list[int]:
                start.wait()
                return self.work(place, parts[place])

            futures = [pool.submit(work, place) for place in range(self.threads)]
            start.wait()
            began = time.monotonic()
            self.ids = [job_id for future in futures for job_id in future.result()]
            return (self.jobs / (time.monotonic() - began),)

    @abstractmethod
    def work(self, place: int, numbers: range) -> list[int]:
        """Send the jobs *numbers* as thread *place*, and return their ids."""

    def in_transactions(
        self, conn: psycopg.Connection[Any], numbers: range, send: Callable[[int], int]
    ) -> list[int]:
        """Send the jobs by *send*, so many in each transaction of *conn*."""
        ids: list[int] = []
        for first in range(0, len(numbers), TOGETHER):
            with conn.transaction():
                ids += [send(number) for number in numbers[first : first + TOGETHER]]
        return ids


@define
class _Client(_Sender):
    """The product: a task's `enqueue`."""

    tq: TaskQ = field(init=False)
    task: Task[[int, str], None] = field(init=False)
    conn: psycopg.Connection[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.tq = TaskQ(self.site.dsn, pool_size=self.threads)

        @self.tq.task(queue=product.QUEUE, name=product.TASK)
        def noop(number: int, text: str) -> None: ...

        self.task = noop
        self.conn = psycopg.connect(self.site.dsn, autocommit=True)

    def set_up(self) -> None:
        product.clear(self.site.conn)

    def work(self, place: int, numbers: range) -> list[int]:
        text = str(product.payload(0)["text"])
        if not self.together:
            return [self.task.enqueue(number, text).job_id for number in numbers]
        task = self.task.using(connection=self.conn)
        return self.in_transactions(self.conn, numbers, lambda number: task.enqueue(number, text).job_id)

    def check(self) -> None:
        if len(self.ids) != self.jobs:
            raise Incorrect(f"{len(self.ids)} of {self.jobs} jobs were enqueued")
        product.expect_place(self.site.conn, "ready", self.ids)

    def close(self) -> None:
        """Close the connections."""
        self.tq.close()
        self.conn.close()


@define
class _Raw(_Sender):
    """The floor: one insert into a table like `jobs` and one like `ready`, in one statement."""

    conns: list[psycopg.Connection[Any]] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.site.conn.execute(_TABLES)
        while len(self.conns) < self.threads:
            self.conns.append(psycopg.connect(self.site.dsn, autocommit=True))

    def work(self, place: int, numbers: range) -> list[int]:
        conn = self.conns[place]

        def send(number: int) -> int:
            payload = json.dumps(product.payload(number))
            row = conn.execute(_INSERT, (product.QUEUE, product.TASK, payload)).fetchone()
            assert row is not None
            return int(row[0])

        if self.together:
            return self.in_transactions(conn, numbers, send)
        return [send(number) for number in numbers]

    def check(self) -> None:
        for table in ("raw_requests", "raw_ready"):
            found = [row[0] for row in self.site.conn.execute(f"select id from {table}".encode())]
            product.expect_once(self.ids, found, f"in {table}")

    def close(self) -> None:
        """Close the connections."""
        for conn in self.conns:
            conn.close()


@define
class _Listened:
    """The product, while sessions listen as those of busy workers do: they are not among the sleepers."""

    client: _Client
    count: int
    listeners: list[psycopg.Connection[Any]] = field(init=False, factory=list)

    def set_up(self) -> None:
        for _ in range(self.count):
            conn = psycopg.connect(self.client.site.dsn, autocommit=True)
            self.listeners.append(conn)
            conn.execute(product.statements.listen.encode())
        self.client.set_up()

    def call(self) -> Sequence[float]:
        return self.client.call()

    def check(self) -> None:
        self.close()
        self.client.check()

    def close(self) -> None:
        """Close the sessions that listen."""
        while self.listeners:
            self.listeners.pop().close()


@define
class _ToSleepers:
    """One enqueue while workers sleep: the statements that all of them send, beyond those they send anyway."""

    site: Site
    workers: sleepers.Sleepers
    number: int = field(init=False, default=0)
    quiet: int = field(init=False, default=0)

    def set_up(self) -> None:
        counting.reset(self.site.conn)
        time.sleep(_OVER)
        self.quiet = self._counted()

    def call(self) -> Sequence[float]:
        self.number += 1
        counting.reset(self.site.conn)
        self.site.conn.execute(
            "select from taskq.enqueue(%s, %s, jsonb_build_object('number', %s::int), p_skip_wake => true)",
            (sleepers.QUEUE, sleepers.TASK, self.number),
        )
        time.sleep(_OVER)
        return (max(1, self._counted() - self.quiet),)

    def check(self) -> None:
        try:
            self.workers.started_at(self.number, 60.0)
        except TimeoutError as error:
            raise Incorrect(f"enqueued while workers sleep: {error}") from error

    def _counted(self) -> int:
        return sum(count for count, _ in counting.counted(self.site.conn))


@define
class _Pgbench:
    site: Site
    program: str
    clients: int
    jobs: int

    @property
    def calls(self) -> int:
        return max(1, self.jobs // self.clients)

    def set_up(self) -> None:
        self.site.conn.execute(_TABLES)

    def call(self) -> Sequence[float]:
        values = (product.QUEUE, product.TASK, json.dumps(product.payload(0)))
        script = _INSERT % tuple(f"'{value}'" for value in values)
        seconds = pgbench.run(self.program, self.site.dsn, script, clients=self.clients, calls=self.calls)
        return (self.calls * self.clients / seconds,)

    def check(self) -> None:
        row = self.site.conn.execute("select count(*) from raw_ready").fetchone()
        if row != (self.calls * self.clients,):
            raise Incorrect(f"pgbench left {row} of {self.calls * self.clients} rows")
