"""Worker processes of the product, as a user runs them, that run a task which does nothing."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from attrs import frozen

from benchmarks import product
from taskq_sync import TaskQ
from taskq_sync.worker import Worker
from taskq_sync.worker.events import WorkerStarted

_spawn = multiprocessing.get_context("spawn")


@frozen(kw_only=True)
class Usage:
    """What the workers have done since they were asked before: for each run of a handler the number in the payload
    and the start, by `time.monotonic()`, and the CPU seconds of their processes, without the server's."""

    ran: Sequence[int]
    started_at: Sequence[float]
    cpu: float


class Workers:
    """*processes* workers with *slots* threads each, started and waiting for jobs when this returns."""

    def __init__(self, dsn: str, *, processes: int, slots: int = 8) -> None:
        self._members: list[tuple[BaseProcess, Connection]] = []
        for _ in range(processes):
            ours, theirs = _spawn.Pipe()
            process = _spawn.Process(target=_work, args=(dsn, slots, theirs))
            process.start()
            theirs.close()
            self._members.append((process, ours))
        for _, pipe in self._members:
            pipe.recv()

    def usage(self) -> Usage:
        """Return what all of them have done since the last call."""
        answers = []
        for _, pipe in self._members:
            pipe.send("usage")
            answers.append(pipe.recv())
        runs = [run for ran, _ in answers for run in ran]
        return Usage(
            ran=[run[0] for run in runs],
            started_at=[run[1] for run in runs],
            cpu=sum(cpu for _, cpu in answers),
        )

    def close(self) -> None:
        """Stop the workers softly; they are gone when this returns."""
        for _, pipe in self._members:
            pipe.close()
        for process, _ in self._members:
            process.join()


def _work(dsn: str, slots: int, pipe: Connection) -> None:
    """The life of a worker process: until the other end of *pipe* is closed."""
    ran: list[tuple[int, float]] = []
    with TaskQ(dsn) as tq:

        @tq.task(queue=product.QUEUE, name=product.TASK)
        def noop(number: int, text: str) -> None:
            ran.append((number, time.monotonic()))  # atomic, so that the slots need no lock of ours

        worker = Worker(tq, slots=slots)
        worker.events.subscribe(WorkerStarted, lambda event: pipe.send("started"))
        answering = threading.Thread(target=_answer, args=(worker, pipe, ran), name="benchmark-answering")
        answering.start()
        worker.run()
        answering.join()


def _answer(worker: Worker, pipe: Connection, ran: list[tuple[int, float]]) -> None:
    seen, cpu = 0, time.process_time()
    try:
        while True:
            pipe.recv()
            before, seen = seen, len(ran)
            spent, cpu = time.process_time() - cpu, time.process_time()
            pipe.send((ran[before:seen], spent))
    except (EOFError, OSError):
        worker.stop()
