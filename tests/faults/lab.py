"""What a scenario works with: a server, workers, faults between them, and the checks at the end.

::

    def test_a_job_of_a_killed_worker_is_run_again(lab: Lab) -> None:
        # B05
        job = lab.enqueue("nap", {"seconds": 60})
        first = lab.worker()
        lab.wait_for_starts(job)
        first.kill()
        lab.worker()
        lab.wait_until_ended(job)
        assert len(lab.starts(job)) == 2

Everything else (that no job is lost, that every start is on record, that workers serve afterwards, end as they should
and leave nothing behind) is checked when the scenario has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import frozen
from psycopg import conninfo

from faults import checker
from faults.ledger import VARIABLE, Ledger, Start
from faults.pooler import Pooler, installed
from faults.process import Usage, WorkerProcess
from faults.proxy import Proxy
from faults.server import FaultServer
from faults.watch import Watch
from kit.contract import Contract, Row
from kit.waiting import PATIENCE, eventually

#: The lease of all jobs, in seconds: as short as a busy machine allows.
LEASE = 2.5

#: The sweep of all workers, in seconds.
SWEEP = 0.5

#: Seconds in which an abandoned job must be running again, for a machine with nothing else to do: the rest of the
#: lease, one beat of grace after a worker has connected, and a sweep.
RECOVERY = LEASE + LEASE / 3 + SWEEP

#: What is added to every bound of time, because the machine has other things to do.
SLACK = 6.0

_RUNNING_QUERY = "select count(*) from taskq.running"
_ENDED = ("succeeded", "failed", "cancelled")

_OLD_JOBS = """
with old as (
  insert into taskq.jobs (
    queue, task, payload, priority, max_attempts, backoff, backoff_max, lease, created_at, enqueued_by)
  select 'old', 'nap', '{}', 0, 5, '30 s', '1 h', '60 s', now() - interval '9 d', 'somebody'
  from generate_series(1, %s) returning id)
insert into taskq.finished (
  id, queue, task, status, outcome, finished_at, purge_at, priority, scheduled_at, attempt_count, failure_count,
  expiry_streak, snooze_count, is_unique, is_ordered, watched)
select id, 'old', 'nap', 'succeeded', 'success', now() - interval '8 d', now() - interval '1 d', 0,
  now() - interval '9 d', 1, 0, 0, 0, false, false, false from old
"""


@frozen
class Served:
    """A worker of the lab, and what it held when it had begun to serve."""

    process: WorkerProcess
    base: Usage


class Lab:
    """One scenario. *scale*: 0 = as short as possible, 1 = as long as the scenario says."""

    def __init__(self, server: FaultServer, dsn: str, ledger: Ledger, folder: Path, scale: float) -> None:
        self.server = server
        self.dsn = dsn
        self.ledger = ledger
        self.folder = folder
        self.scale = scale
        self.processes: list[WorkerProcess] = []
        self.enqueued: list[int] = []
        self.asked_for: set[str] = set()
        self.may_be_unstarted = 0
        self._has_ledger = True
        self._has_schema = True
        self._served: list[Served] = []
        self._excused: set[int] = set()
        self._numbers = itertools.count(1)
        self._conn: psycopg.Connection[Any] | None = None
        self._stack = ExitStack()
        self._log_from = server.log_size()
        self._sweeping_since: float | None = None
        self.watch = Watch(self._admin(dsn), self._sweeper)

    # How long and how many

    def span(self, seconds: float, *, short: float) -> float:
        """Return a duration: *seconds* at full scale, *short* at the shortest."""
        return short + (seconds - short) * self.scale

    def count(self, number: int, *, short: int) -> int:
        """Return a number of things: *number* at full scale, *short* at the shortest."""
        return round(short + (number - short) * self.scale)

    def without_ledger(self) -> None:
        """The jobs of this scenario are run by hand, so the ledger knows nothing of them."""
        self._has_ledger = False

    def without_schema(self) -> None:
        """The scenario has dropped the schema: there is nothing to look into at its end."""
        self._has_schema = False

    # The parts

    @property
    def sql(self) -> Contract:
        """The SQL functions, by a connection that nothing stands before and that is made again when it is broken."""
        try:
            if self._conn is not None:
                self._conn.execute("select")
        except psycopg.Error:
            self._conn = None
        if self._conn is None:
            self._conn = psycopg.connect(self._admin(self.dsn), autocommit=True)
        return Contract(self._conn)

    def proxy(self, dsn: str | None = None) -> Proxy:
        """Put a proxy before the server; workers and clients that are to go through it get its `dsn`."""
        return self._stack.enter_context(Proxy(dsn or self.dsn))

    def pooler(self, size: int = 3) -> Pooler:
        """Put PgBouncer before the server, with *size* sessions there; skips the test where it is missing."""
        if installed() is None:
            pytest.skip("install the Debian package pgbouncer")
        return self._stack.enter_context(Pooler(self.dsn, self.folder / "pooler", size=size))

    def role(self, **settings: str) -> str:
        """Make a role with *settings* that may do what an owner may, and return its DSN."""
        return self.server.role(self.dsn, settings)

    def worker(
        self,
        *arguments: str,
        dsn: str | None = None,
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        slots: int = 4,
        queues: str = "q",
        lease: float | None = LEASE,
        tasks: str = "faults.tasks",
    ) -> WorkerProcess:
        """Start a worker, see that it serves, and return it."""
        made = self._spawn(
            arguments, dsn=dsn, env=env, before=before, slots=slots, queues=queues, lease=lease, tasks=tasks
        )
        made.wait_until_ready()
        self._serves(made)
        self._served.append(Served(made, made.usage()))
        return made

    def start_worker(self, *arguments: str, **options: Any) -> WorkerProcess:
        """Start a worker of which nothing is expected: it may refuse to start, or may end by itself."""
        defaults: dict[str, Any] = {
            "dsn": None,
            "env": None,
            "before": (),
            "slots": 4,
            "queues": "q",
            "lease": LEASE,
            "tasks": "faults.tasks",
        }
        return self._spawn(arguments, **{**defaults, **options})

    def excuse(self, worker: WorkerProcess) -> None:
        """Expect nothing of *worker* any more: it may have ended, and any exit code will do."""
        self._excused.add(worker.pid)

    def stop(self, worker: WorkerProcess) -> int:
        """Ask a worker to stop, wait for its end and return the exit code."""
        self.excuse(worker)
        worker.terminate()
        return worker.wait()

    def end_sessions(self, part: str) -> None:
        """End the sessions whose application_name contains *part*, and wait until they are gone."""
        self.asked_for.add("57P01")
        pids = self.server.terminate(part)
        gone = "select count(*) from pg_stat_activity where pid = any (%s)"
        self.until(lambda: self.sql.value(gone, pids) == 0, "the sessions end")

    # Jobs

    def enqueue(self, task: str, payload: Row | None = None, **options: Any) -> int:
        """Enqueue a job, with the options of the SQL function, and return its id; a retry comes at once."""
        defaults = {"lease": f"{LEASE} s", "backoff": "0 s"}
        job_id = self.sql.new_job(task=task, payload=payload or {}, **{**defaults, **options})
        self.enqueued.append(job_id)
        return job_id

    def enqueue_many(self, number: int, task: str, payload: Row | None = None, **options: Any) -> list[int]:
        """Enqueue *number* equal jobs and return their ids."""
        return [self.enqueue(task, payload, **options) for _ in range(number)]

    def leave_old_jobs(self, number: int) -> None:
        """Put so many jobs of the queue `old` there that have ended and are past their retention."""
        self.sql.run(_OLD_JOBS, number)

    def job(self, job_id: int) -> Row:
        """Return a job as `get_job` shows it."""
        return self.sql.job(job_id)

    def history(self, job_id: int) -> list[Row]:
        """Return the attempts of a job, oldest first."""
        return self.sql.job_history(job_id=job_id)

    def outcomes(self, *job_ids: int) -> list[tuple[str, str]]:
        """Return status and outcome of these jobs, or of all."""
        rows = self.sql.rows(
            "select status, outcome from taskq.job_view where id = any (%s) order by id",
            list(job_ids or self.enqueued),
        )
        return [(row["status"], row["outcome"]) for row in rows]

    def starts(self, *job_ids: int) -> list[Start]:
        """Return the calls of handlers so far, for these jobs or for all that were enqueued here."""
        return self.ledger.starts(*(job_ids or self.enqueued))

    def drain(self, *queues: str) -> None:
        """Have everything in these queues run, by a worker that ends then."""
        self.until(
            lambda: not self.sql.take_back() and not self.sql.value(_RUNNING_QUERY), "the leases run out"
        )
        worker = self.start_worker("--burst", queues=",".join(queues))
        assert worker.wait() == 0, worker.text

    # Waiting

    def wait_for_starts(self, *job_ids: int, times: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until each of the jobs has been started so many times."""

        def started() -> bool:
            counts = Counter(each.job_id for each in self.starts(*job_ids))
            return all(counts[job_id] >= times for job_id in job_ids)

        self.until(started, "the jobs start", timeout)

    def wait_until_ended(self, *job_ids: int, timeout: float = PATIENCE) -> None:
        """Wait until these jobs, or all, have ended."""

        def ended() -> bool:
            return all(status in _ENDED for status, _ in self.outcomes(*job_ids))

        self.until(ended, "the jobs end", timeout)

    def until(self, condition: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
        """Wait until *condition* holds; an outage in between does not matter."""

        def holds() -> object:
            try:
                return condition()
            except psycopg.OperationalError:
                return False

        eventually(holds, what, timeout=timeout)

    # The end

    def unsettled(self) -> list[str]:
        """Describe the jobs that have not succeeded, for who looks for the reason."""
        if not self._has_schema:
            return []
        rows = self.sql.rows(
            "select id, task, status, outcome, attempt_count, failure_count, expiry_streak, hold, worker_id,"
            " scheduled_at - taskq.clock() as due_in, lease_expires_at - taskq.clock() as lease_ends_in, backoff"
            " from taskq.job_view where status <> 'succeeded' order by id limit 20"
        )
        return [
            ", ".join(f"{name} {value}" for name, value in row.items() if value is not None) for row in rows
        ]

    def close(self) -> None:
        """Kill what runs, and let everything go."""
        for process in self.processes:
            process.end()
        for pid in self.left_processes():  # a child process leads a session of its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.watch.end()
        self._stack.close()
        if self._conn is not None:
            self._conn.close()

    def check(self) -> list[str]:
        """Return what is wrong now that the scenario is over; ends all workers."""
        findings = [*self._check_workers()]
        self.watch.end()
        self._stack.close()  # a pooler keeps sessions that outlive its clients
        conn = self.sql.conn
        findings += self._left_sessions(conn)
        findings += self._left_children()
        for process in self.processes:  # the workers run with all warnings as errors
            findings += (f"{process} says: {line}" for line in process.lines("Warning: |Exception ignored"))
        findings += checker.complaints(
            # 08006: a client was gone when the server answered; to be killed is what workers are here for
            self.server.complaints(self._log_from),
            frozenset({"00000", "08006", *self.asked_for}),
        )
        if self._has_schema:
            findings += self._check_jobs(conn)
        return findings

    def _check_jobs(self, conn: psycopg.Connection[Any]) -> list[str]:
        self._sweep()
        findings = [*self.watch.findings]
        findings += checker.places(conn, self.enqueued)
        if self._has_ledger:
            findings += checker.starts(conn, self.ledger.starts(), self.may_be_unstarted)
        findings += checker.owners(conn)
        findings += checker.keys(conn)
        return findings

    def _check_workers(self) -> Iterator[str]:
        """Checks 5 and 6: a worker serves, holds no more than at first and ends well; or it has said that it failed."""
        for served in self._served:
            process = served.process
            if process.pid in self._excused:
                continue
            if process.code == 0:
                yield f"{process} has ended with 0 though nobody asked for it"
            elif process.code is None:
                try:
                    self._serves(process)
                    yield from self._grown(served)
                except AssertionError as error:
                    yield f"{process}: {error}"
        alive = [process for process in self.processes if process.code is None]
        for process in alive:
            process.terminate()
        for process in alive:
            yield from self._ends_well(process)

    def _ends_well(self, process: WorkerProcess) -> Iterator[str]:
        try:
            code = process.wait()
        except AssertionError as error:
            yield f"{process}: {error}"
        else:
            if code != 0:
                yield f"{process} has nothing to do and ends with {code}"

    def _grown(self, served: Served) -> Iterator[str]:
        def grown() -> list[str]:
            now = served.process.usage()
            pairs = [
                ("threads", served.base.threads, now.threads),
                ("open files", served.base.descriptors + self._may_be_open(served.process), now.descriptors),
            ]
            return [
                f"{what}: {before} at first, {after} now" for what, before, after in pairs if after > before
            ]

        try:
            eventually(lambda: not grown(), "as small as at first", timeout=SLACK)
        except AssertionError:
            yield from (f"{served.process} has grown: {each}" for each in grown())

    def _may_be_open(self, process: WorkerProcess) -> int:
        """Return how many connections it keeps that are made when they are first needed."""
        return int(
            self.sql.value(
                "select count(*) from pg_stat_activity where application_name = 'taskq-client'"
                " or application_name like 'taskq-%%' || right(%s, 40) || '-transaction'",
                process.worker_id,
            )
        )

    def _sweep(self) -> None:
        """When no worker is left: take back what they left, as the next one would."""
        if any(process.code is None for process in self.processes):
            return

        def swept() -> bool:
            self.sql.take_back()
            return not self.sql.value(_RUNNING_QUERY)

        eventually(swept, "the leases of the workers that are gone run out")

    def _left_sessions(self, conn: psycopg.Connection[Any]) -> list[str]:
        try:
            eventually(lambda: not [*checker.sessions(conn)], "", timeout=SLACK)
        except AssertionError:
            return [*checker.sessions(conn)]
        return []

    def left_processes(self) -> list[int]:
        """Return the processes that were started by workers which have ended, and still run."""
        return [pid for process in self.processes for pid in process.left_children()]

    def _left_children(self) -> list[str]:
        if any(process.code is None for process in self.processes):
            return []
        try:
            eventually(lambda: not self.left_processes(), "", timeout=SLACK)
        except AssertionError:
            return [f"processes are left: {self.left_processes()}"]
        return []

    def _serves(self, worker: WorkerProcess) -> None:
        """See that *worker* runs a job from the queue that only it serves."""
        job_id = self.enqueue("nap", queue=worker.own_queue)

        def ended() -> bool:
            return worker.code is not None or self.outcomes(job_id) == [("succeeded", "success")]

        self.until(ended, f"{worker} serves")
        assert worker.code is None, f"{worker} has ended with {worker.code}"

    def _spawn(
        self,
        arguments: Sequence[str],
        *,
        dsn: str | None,
        env: Mapping[str, str] | None,
        before: Sequence[str],
        slots: int,
        queues: str,
        lease: float | None,
        tasks: str,
    ) -> WorkerProcess:
        number = next(self._numbers)
        own = f"own-{number}"
        words = [
            *("--import", tasks, "--queues", f"{own},{queues}", "--slots", str(slots)),
            *("--poll-interval", "200ms", "--take-back-every", f"{SWEEP}s"),
            *(() if lease is None else ("--lease", f"{lease}s")),
            *arguments,
        ]
        made = WorkerProcess(
            self.folder / f"worker-{number}.log",
            words,
            env={"TASKQ_DSN": dsn or self.dsn, VARIABLE: self.ledger.dsn, **(env or {})},
            before=before,
        )
        made.own_queue = own
        self.processes.append(made)
        return made

    def _sweeper(self) -> float | None:
        """Since when there has been a worker that can take back; asked by the watch, ten times a second."""
        if not any(served.process.works for served in list(self._served)):
            self._sweeping_since = None
        elif self._sweeping_since is None:
            self._sweeping_since = time.monotonic()
        return self._sweeping_since

    @staticmethod
    def _admin(dsn: str) -> str:
        """The DSN for the harness itself, which goes on where a scenario has made the server hostile."""
        return conninfo.make_conninfo(
            dsn, application_name="faults-lab", options="-c default_transaction_read_only=off"
        )
