"""The run: enqueue, let workers work, perhaps kill one, ask the database."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from taskq_sync.client import TaskQ
from taskq_sync.clock import Deadline, monotonic
from taskq_sync.db.schema import Schema
from taskq_sync.db.session import Session
from taskq_sync.demo import plan, stage
from taskq_sync.demo.library import find_modules, library_folder
from taskq_sync.demo.report import Counts, Report, count, make_report, running_starts
from taskq_sync.demo.stage import WorkerProcess
from taskq_sync.demo.starts import VARIABLE, Starts
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.errors import TaskQError

#: Seconds between two looks at the database.
POLL = 0.1

#: Seconds without a job coming to its end after which something must be wrong.
STANDSTILL = 300.0

#: The lease in a run with a death in it, as a duration of the command line: so long the others wait for its jobs.
SHORT_LEASE = "4s"

#: Seconds for what a stopped process has sent to arrive.
_ARRIVAL = 0.1

SLOTS = "4"


class Progress(Protocol):
    """Is told how far the run is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """*done* of *total* jobs have ended; total 0 while that is unknown."""
        ...


def run_demo(*, limit: int | None, chaos: bool, tell: Progress) -> Report:
    """Run the demo with at most *limit* files, and return what became of the jobs.

    *chaos*: two worker processes, one of which is killed in the middle. Blocks until all jobs have ended. Ends by
    KeyboardInterrupt at SIGINT and SIGTERM. Whatever happens, the server, the processes and the files are gone when
    this returns. Raises `ConfigError` without the extra `embedded`.
    """
    tell("starting a server", 0, 0)
    with (
        stage.one_interrupt(),
        stage.folder() as folder,
        EmbeddedServer(folder / "server", durable=False) as server,
        stage.environment(TASKQ_DSN=server.dsn, PGPORT="5432", **{VARIABLE: str(folder / "starts")}),
    ):
        try:
            return _Run(folder, limit, chaos, tell).run()
        finally:
            stage.ignore_signals()


class _Run:
    """One run in *folder*, whose database and environment are ready."""

    def __init__(self, folder: Path, limit: int | None, chaos: bool, tell: Progress) -> None:
        self._folder = folder
        self._limit = limit
        self._chaos = chaos
        self._tell = tell

    def run(self) -> Report:
        # Like any program, it reads the environment when it is imported.
        from taskq_sync.demo.tasks import index_module, starts, tq

        self._starts: Starts = starts
        self._tq: TaskQ = tq
        with tq, tq.database.connect("taskq-demo") as session:
            Schema().migrate(session.connection)
            files = list(itertools.islice(find_modules(library_folder()), self._limit))
            self._tell("enqueuing", 0, 0)
            extras = plan.write_extras(self._folder)
            enqueued = tq.enqueue_many(plan.requests(index_module, files, extras))
            withdrawn = tq.send(plan.withdrawn(index_module, extras))
            tq.jobs.cancel(session, withdrawn.job_id, actor="demo", reason="the demo shows an operator")
            return self._work(session, len(enqueued) + 1)

    def _work(self, session: Session, enqueued: int) -> Report:
        names, options = ["demo-worker"], ["--slots", SLOTS]
        if self._chaos:
            names, options = ["demo-worker-1", "demo-worker-2"], [*options, "--lease", SHORT_LEASE]
        began_at = monotonic()
        with stage.crew(names, self._folder, *options) as workers:
            killed = self._kill_one(session, workers, enqueued) if self._chaos else 0
            self._wait(session, workers, enqueued, until=enqueued)
            seconds = monotonic() - began_at
        return make_report(
            session,
            self._tq.jobs,
            enqueued=enqueued,
            starts=self._starts.read(),
            killed=killed,
            seconds=seconds,
        )

    def _kill_one(self, session: Session, workers: list[WorkerProcess], enqueued: int) -> int:
        """Kill the first worker that is found at work once half of the jobs have ended; it leaves *workers*."""
        goal = math.ceil(enqueued / 2)
        for victim in itertools.cycle(list(workers)):
            counts = self._wait(session, workers, enqueued, until=goal)
            if counts.ended >= enqueued:
                break
            with victim.frozen():
                time.sleep(_ARRIVAL)
                if running_starts(session, victim.name, self._starts.read()):
                    workers.remove(victim)
                    victim.kill()
                    return 1
        raise TaskQError("all jobs were done before a worker could be killed: let --limit be larger")

    def _wait(
        self, session: Session, workers: Sequence[WorkerProcess], enqueued: int, *, until: int
    ) -> Counts:
        """Wait until so many jobs have ended."""
        told, patience = -1, Deadline.after(STANDSTILL)
        stage_name = "indexing the standard library"
        while True:
            for worker in workers:
                worker.check()
            # A worker does this once a minute; cron could do it as well.
            self._tq.jobs.expire_ttl(session)
            counts = count(session)
            self._tell(stage_name, counts.ended, enqueued)
            if counts.ended >= until:
                return counts
            if counts.ended > told:
                told, patience = counts.ended, Deadline.after(STANDSTILL)
            elif patience.expired:
                raise TaskQError(f"no job has ended for {STANDSTILL:g} s; {counts.ended} of {enqueued} have")
            time.sleep(POLL)
