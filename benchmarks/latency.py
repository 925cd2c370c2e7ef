"""How soon a job starts in a worker that has nothing else to do, against a notification that is received."""

from __future__ import annotations

import json
import multiprocessing
import random
import statistics
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site
from benchmarks.workers import Workers

#: Jobs of a run: 3,000 in the seven that are usual.
JOBS = 429

#: Jobs per second.
RATE = 50.0

#: Percentiles, and the least ratio to the floor's: at most twice as late, at most three times.
PERCENTILES = {50: 0.5, 95: 1 / 3, 99: None}

#: What has not been received after so many seconds is lost.
_PATIENCE = 60.0

_ENQUEUE = "select from taskq.enqueue(%s, %s, %s::jsonb, p_skip_wake => %s)"

_TABLE = "create table if not exists raw_mail (number int primary key, payload text not null)"
_SEND = """
with sent as (insert into raw_mail (number, payload) values (%s, %s) returning number)
select pg_notify('raw_mail', number::text) from sent
"""

_spawn = multiprocessing.get_context("spawn")

#: When each of a run was sent or received, by `time.monotonic()`, which is one for all processes.
Instants = Mapping[int, float]


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """From the commit, in a transaction of the caller's; then from the call of one that commits by itself."""
    size = scale.size(JOBS, smoke=40)
    site.conn.execute(_TABLE)
    with closing(Workers(site.dsn, processes=1)) as workers, closing(_Receiver(site.dsn)) as receiver:
        for since, scored in (("commit", True), ("call", False)):
            from_commit = since == "commit"
            yield Benchmark(
                measures=tuple(
                    Measure(
                        name=f"latency, from the {since}, p{percentile}",
                        unit="ms",
                        cost=True,
                        limit=limit if scored else None,
                    )
                    for percentile, limit in PERCENTILES.items()
                ),
                product=_Product(site, workers, size, from_commit),
                floor=_Floor(site, receiver, size, from_commit),
            )


def _percentiles(sent: Instants, received: Instants) -> Sequence[float]:
    """Return those of the delays in milliseconds; both have the same numbers."""
    cuts = statistics.quantiles(
        [(received[each] - sent[each]) * 1e3 for each in sent], n=100, method="inclusive"
    )
    return [cuts[percentile - 1] for percentile in PERCENTILES]


@frozen
class _Send:
    """A client that executes *query* at an even pace, not quite even so as to keep step with nobody.

    Returns when each was sent: the instant of the commit, or of the call that commits.
    """

    query: str
    count: int
    from_commit: bool
    is_job: bool

    def __call__(self, conn: psycopg.Connection[Any]) -> Instants:
        sent = {}
        for number in self._paced():
            values = self._values(number)
            if self.from_commit:
                with conn.transaction():
                    conn.execute(self.query.encode(), values)
                    sent[number] = time.monotonic()
            else:
                sent[number] = time.monotonic()
                conn.execute(self.query.encode(), values)
        return sent

    def _values(self, number: int) -> tuple[object, ...]:
        payload = json.dumps(product.payload(number))
        if self.is_job:
            # in a transaction of a caller's the client must not skip the notification
            return product.QUEUE, product.TASK, payload, not self.from_commit
        return number, payload

    def _paced(self) -> Iterator[int]:
        began = time.monotonic()
        for number in range(self.count):
            due = began + (number + random.uniform(0.0, 0.5)) / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            yield number


@define
class _Product:
    site: Site
    workers: Workers
    count: int
    from_commit: bool
    started: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        product.clear(self.site.conn)
        self.workers.usage()

    def call(self) -> Sequence[float]:
        task = _Send(_ENQUEUE, self.count, self.from_commit, is_job=True)
        sent = self.site.crew.run(1, task).results[0]
        product.await_empty(self.site.conn)
        usage = self.workers.usage()
        self.started = list(usage.ran)
        product.expect_once(
            range(self.count), self.started, "run"
        )  # there is no delay of one that is missing
        return _percentiles(sent, dict(zip(usage.ran, usage.started_at, strict=True)))

    def check(self) -> None:
        rows = self.site.conn.execute("select id from taskq.jobs").fetchall()
        product.expect_place(self.site.conn, "finished", [row[0] for row in rows])


@define
class _Floor:
    site: Site
    receiver: _Receiver
    count: int
    from_commit: bool

    def set_up(self) -> None:
        self.site.conn.execute("truncate raw_mail")

    def call(self) -> Sequence[float]:
        self.receiver.expect(self.count)
        task = _Send(_SEND, self.count, self.from_commit, is_job=False)
        sent = self.site.crew.run(1, task).results[0]
        received = self.receiver.received()
        product.expect_once(sent, received, "received")
        return _percentiles(sent, dict(received))

    def check(self) -> None:
        row = self.site.conn.execute("select count(*) from raw_mail").fetchone()
        if row != (self.count,):
            raise Incorrect(f"the floor wrote {row} of {self.count} rows")


class _Receiver:
    """A process with one session that listens, there when this returns."""

    def __init__(self, dsn: str) -> None:
        self._pipe, theirs = _spawn.Pipe()
        self._process = _spawn.Process(target=_receive, args=(dsn, theirs))
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def expect(self, count: int) -> None:
        """Have it receive so many."""
        self._pipe.send(count)

    def received(self) -> Instants:
        """Return when each of those came, and of those alone that came in time."""
        found: dict[int, float] = dict(self._pipe.recv())
        return found

    def close(self) -> None:
        """End the process; it is gone when this returns."""
        self._pipe.close()
        self._process.join()


def _receive(dsn: str, pipe: Connection) -> None:
    """The life of the process that listens: until the other end of *pipe* is closed."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("listen raw_mail")
        pipe.send("up")
        try:
            while True:
                pipe.send(_instants(conn, pipe.recv()))
        except (EOFError, OSError):
            pass


def _instants(conn: psycopg.Connection[Any], count: int) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for notice in conn.notifies(timeout=_PATIENCE):
        found.append((int(notice.payload), time.monotonic()))
        if len(found) == count:
            break
    return found
