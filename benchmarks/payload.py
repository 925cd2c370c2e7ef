"""Draining jobs with large payloads: what is moved is narrow, and the payload is read and not written again."""

from __future__ import annotations

import random
import string
from collections.abc import Generator, Sequence

from attrs import define

from benchmarks import burst, product, stock
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site
from benchmarks.wal import Log

SMALL, LARGE = 100, 20_000
#: The least that must be left of the rate; and no more than a fifth of the WAL on top.
RATE, WAL = 0.35, 1 / 1.2

JOBS = 10_000
SLOTS = 8

#: What a payload has beside its text.
_REST = len('{"text": "", "number": 1234}')


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Large against small."""
    jobs = scale.size(JOBS)
    yield Benchmark(
        measures=(
            Measure(name="payload, drain, 20 KB", unit="jobs/s", limit=RATE),
            Measure(
                name="payload, WAL of a job after its enqueue, 20 KB", unit="bytes", cost=True, limit=WAL
            ),
        ),
        product=_Drain(site, jobs, _text(LARGE)),
        floor=_Drain(site, jobs, _text(SMALL)),
    )


def _text(size: int) -> str:
    """Return the text of a payload of *size* bytes, which cannot be compressed to much less."""
    return "".join(random.Random(size).choices(string.ascii_letters + string.digits, k=size - _REST))


@define
class _Drain:
    site: Site
    jobs: int
    text: str

    def set_up(self) -> None:
        conn = self.site.conn
        product.clear(conn)
        stock.queued(conn, self.jobs, text=self.text)
        stock.tidy(conn)
        conn.execute("checkpoint")

    def call(self) -> Sequence[float]:
        log = Log(self.site.conn)
        rate = burst.drain(self.site, self.jobs, slots=SLOTS)
        return (rate, log.written().size / self.jobs)

    def check(self) -> None:
        if stock.count(self.site.conn, "finished") != self.jobs:
            raise Incorrect("not all jobs have finished")
        stock.expect_integrity(self.site.conn)
