"""One run: producer and workers work, kills and restarts come by the schedule, and samples are taken. Then all is
counted."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
from attrs import define, field, frozen

from benchmarks.site import machine
from benchmarks.soak import checker, ledger, mix, schedule
from benchmarks.soak.gauge import Gauge
from benchmarks.soak.producer import Producer
from benchmarks.soak.report import Report
from benchmarks.soak.schedule import Kill, Restart
from benchmarks.soak.tasks import ONCE_TABLE, register
from benchmarks.soak.workers import Workers
from taskq_sync import TaskQ
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.embedded.postmaster import Postmaster

WORKERS = 3

#: The first worker is never killed: it is the one whose memory is watched.
_WATCHED = 0
_VICTIMS = range(1, WORKERS)

#: Seconds between two looks at workers, and between two samples.
_LOOK_EVERY = 0.2
_SAMPLE_EVERY = 1.0

#: Seconds that the jobs have to be settled in when no more come.
_PATIENCE = 120.0

#: The windows of the samples: so long, or this part of a short run. The first begins after as much for warming up.
_WINDOW, _WINDOW_SHARE = 60.0, 0.2

#: Whether a worker has a job that was killed twice in a row: the third time is the end of it.
_KILLED_TWICE = "select exists (select from taskq.running where expiry_streak >= 2 and worker_id like %s)"

_UNDER_WAY = "select exists (select from taskq.ready) or exists (select from taskq.running)"
_LAST_SETTLE = """
select extract(epoch from (select max(finished_at) from taskq.finished) - (select max(created_at) from taskq.jobs))
"""


@frozen(kw_only=True)
class Plan:
    """What a run is: durations in seconds, *rate* in jobs/s."""

    seconds: float
    seed: int
    rate: float
    slots: int
    kill_every: float
    restart_every: float


def run(plan: Plan, dsn: str, server: EmbeddedServer | None, folder: Path) -> Report:
    """Run it in the database *dsn*, which is new; without *server* it is not restarted. Takes some time longer.

    The ledger and the logs of the workers go to *folder*.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create schema soak")
        conn.execute(ONCE_TABLE)
    with TaskQ(dsn) as tq, closing(Workers(dsn, folder, count=WORKERS, slots=plan.slots)) as workers:
        producer = Producer(tq, mix.orders(plan.seed, register(tq)), plan.rate)
        course = _Course(plan, dsn, server, workers, producer)
        course.run()
        workers.stop()
    with psycopg.connect(dsn, autocommit=True) as conn:
        ledger.load(conn, folder / "ledger")
        findings = checker.check(conn, made=producer.made, unknown=producer.unknown)
        row = conn.execute(_LAST_SETTLE).fetchone()
    window = min(_WINDOW, plan.seconds * _WINDOW_SHARE)
    return Report(
        machine=machine(dsn),
        seed=plan.seed,
        seconds=course.seconds,
        settled_after=float(row[0]) if row is not None and course.settled else None,
        enqueued=len(producer.made),
        existed=producer.existed,
        unknown=len(producer.unknown),
        findings=findings,
        growth=course.gauge.growth((window, 2 * window), (course.seconds - window, course.seconds)),
        kills=course.kills,
        restarts=course.restarts,
        exits=workers.exits,
    )


@define
class _Course:
    """The time in which jobs come, and until they are settled."""

    plan: Plan
    dsn: str
    server: EmbeddedServer | None
    workers: Workers
    producer: Producer
    gauge: Gauge = field(init=False)
    kills: int = field(init=False, default=0)
    restarts: Counter[str] = field(init=False, factory=Counter)
    seconds: float = field(init=False, default=0.0)
    settled: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.gauge = Gauge(self.dsn)

    def run(self) -> None:
        with ThreadPoolExecutor(1, "producer") as executor:
            producing = executor.submit(self.producer.run)
            try:
                self._break_things(producing)
            finally:
                self.producer.stop()
            producing.result()
        self._wait_until_settled()

    def _break_things(self, producing: Future[None]) -> None:
        began = time.monotonic()
        events = self._events()
        sample_at = 0.0
        while (now := time.monotonic() - began) < self.plan.seconds and not producing.done():
            self.workers.tend()
            if events and events[0].at <= now and not self._waits(events[0]):
                self._happen(events.pop(0))
            elif sample_at <= now:
                self.gauge.sample(now, self.workers.pid(_WATCHED))
                sample_at = now + _SAMPLE_EVERY
            else:
                time.sleep(_LOOK_EVERY)
        self.seconds = time.monotonic() - began

    def _events(self) -> list[Kill | Restart]:
        plan = self.plan
        kills = schedule.kills(plan.seed, seconds=plan.seconds, every=plan.kill_every, victims=_VICTIMS)
        restarts: Iterator[Restart] = iter(())
        if self.server is not None:
            restarts = schedule.restarts(plan.seed, seconds=plan.seconds, every=plan.restart_every)
        return sorted([*kills, *restarts], key=lambda event: event.at)

    def _waits(self, event: Kill | Restart) -> bool:
        return isinstance(event, Kill) and is_spared(self.dsn, self.workers.pid(event.worker))

    def _happen(self, event: Kill | Restart) -> None:
        if isinstance(event, Kill):
            self.workers.kill(event.worker)
            self.kills += 1
        elif self.server is not None:
            _restart(self.server, immediate=event.immediate)
            self.restarts["immediate" if event.immediate else "fast"] += 1

    def _wait_until_settled(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            while time.monotonic() < deadline and not self.settled:
                self.workers.tend()
                time.sleep(_LOOK_EVERY)
                self.settled = conn.execute(_UNDER_WAY).fetchone() == (False,)


def is_spared(dsn: str, pid: int) -> bool:
    """Return whether to kill this worker would, rightly, end a job as poison; also while the server cannot be asked."""
    try:
        with psycopg.connect(dsn, connect_timeout=5) as conn:
            return conn.execute(_KILLED_TWICE, (f"%-{pid}-%",)).fetchone() == (True,)
    except psycopg.OperationalError:
        return True


def _restart(server: EmbeddedServer, *, immediate: bool) -> None:
    if immediate:
        running = Postmaster.read(server.folder / "data")
        assert running is not None, "the server does not run"
        os.kill(running.pid, signal.SIGQUIT)
    server.stop()  # in good order, or waits for the end
    server.start()
