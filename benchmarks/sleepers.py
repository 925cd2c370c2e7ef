"""Worker processes that have little to do, and tell when they began with it."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

import psycopg
from attrs import frozen

from taskq_sync import TaskQ
from taskq_sync.worker import Worker
from taskq_sync.worker.events import ListeningChanged, WorkerStarted

QUEUE = "idle"
TASK = "benchmark.tell"

_spawn = multiprocessing.get_context("spawn")


@frozen
class Sleepers:
    """The workers of one run, started."""

    pipes: tuple[Connection, ...]
    pids: tuple[int, ...]

    def started_at(self, number: int, timeout: float) -> float:
        """Return when the handler of job *number* began, by `time.time()`; `TimeoutError` if nobody says so."""
        deadline = time.monotonic() + timeout
        while remaining := max(0.0, deadline - time.monotonic()):
            for pipe in wait(self.pipes, remaining):
                assert isinstance(pipe, Connection)
                told, at = pipe.recv()
                if told == number:
                    return float(at)
        raise TimeoutError(f"job {number} was not started within {timeout:g} s")


@contextmanager
def sleepers(dsn: str, *, processes: int, listening: bool, each: int = 1) -> Iterator[Sleepers]:
    """Lend *processes* with *each* workers with the default options that serve `QUEUE`; not *listening*, they poll."""
    members = []
    for _ in range(processes):
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(target=_work, args=(dsn, listening, each, theirs))
        process.start()
        theirs.close()
        members.append((process, ours))
    pipes = tuple(ours for _, ours in members)
    try:
        for pipe in pipes:
            for _ in range(each):
                pipe.recv()
        yield Sleepers(pipes, tuple(process.pid or 0 for process, _ in members))
    finally:
        for pipe in pipes:
            pipe.close()
        for process, _ in members:
            process.join()


def clock_offset(conn: psycopg.Connection[Any]) -> float:
    """Return the clock of the database minus `time.time()`, in seconds: of ten answers the quickest."""
    found = []
    for _ in range(10):
        before = time.time()
        row = conn.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
        after = time.time()
        assert row is not None
        found.append((after - before, row[0] - (before + after) / 2))
    return float(min(found)[1])


def _work(dsn: str, listening: bool, each: int, pipe: Connection) -> None:
    """The life of a process with *each* workers: until the other end of *pipe* is closed."""
    one_by_one = threading.Lock()

    def send(message: object) -> None:
        with one_by_one:
            pipe.send(message)

    with TaskQ(dsn, pooled=not listening) as tq:

        @tq.task(queue=QUEUE, name=TASK)
        def tell(number: int) -> None:
            send((number, time.time()))

        workers = [Worker(tq) for _ in range(each)]
        for worker in workers:
            worker.events.subscribe(
                ListeningChanged if listening else WorkerStarted, lambda event: send("up")
            )
        threading.Thread(target=_stop_at_the_end, args=(workers, pipe), daemon=True).start()
        others = [threading.Thread(target=worker.run) for worker in workers[1:]]
        for thread in others:
            thread.start()
        workers[0].run()
        for thread in others:
            thread.join()


def _stop_at_the_end(workers: Sequence[Worker], pipe: Connection) -> None:
    try:
        pipe.recv()
    except (EOFError, OSError):
        for worker in workers:
            worker.stop()
