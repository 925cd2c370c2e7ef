"""Client processes: each has one connection and does what it is told, all from the same instant.

A process is started once and kept, so that what is measured begins with a connection that is open and statements
that are prepared.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

import psycopg
from attrs import frozen

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

#: Spawned: a fork would share the parent's connections. Also what makes it the same on every platform.
_spawn = multiprocessing.get_context("spawn")


class Task(Protocol[Result_co]):
    """What a client does with its autocommit connection. Sent to its process, so it must be picklable."""

    def __call__(self, conn: psycopg.Connection[Any]) -> Result_co:
        """Do the work and return what the check needs."""


@frozen(kw_only=True)
class Shift(Generic[Result]):
    """What the clients did together: from the first that began to the last that ended.

    *seconds* on the clock, *cpu* seconds of all their processes, without the server's.
    """

    results: Sequence[Result]
    seconds: float
    cpu: float


class Crew:
    """Client processes for the database *dsn*, started when first needed. For one thread."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._members: list[tuple[BaseProcess, Connection]] = []

    def run(self, clients: int, task: Task[Result]) -> Shift[Result]:
        """Have *clients* processes do *task* at once; what one of them raises is raised here."""
        while len(self._members) < clients:
            self._members.append(self._hire())
        pipes = [pipe for _, pipe in self._members[:clients]]
        for message in (task, "go"):  # all have read the task before the first begins
            for pipe in pipes:
                pipe.send(message)
            answers = [pipe.recv() for pipe in pipes]
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        began, ended, cpu, results = zip(*answers, strict=True)
        return Shift(results=results, seconds=max(ended) - min(began), cpu=sum(cpu))

    def close(self) -> None:
        """End the processes; they are gone when this returns."""
        members, self._members = self._members, []
        for _, pipe in members:
            pipe.close()
        for process, _ in members:
            process.join()

    def _hire(self) -> tuple[BaseProcess, Connection]:
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(target=_work, args=(self._dsn, theirs), daemon=True)
        process.start()
        theirs.close()
        return process, ours


def _work(dsn: str, pipe: Connection) -> None:
    """The life of a client process: until the other end of *pipe* is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the parent, which then closes the pipe
    try:
        with psycopg.connect(dsn, autocommit=True, application_name="benchmark-client") as conn:
            while True:
                task = pipe.recv()
                pipe.send("ready")
                pipe.recv()
                pipe.send(_timed(task, conn))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        pipe.send(error)


def _timed(task: Task[object], conn: psycopg.Connection[Any]) -> object:
    # The monotonic clock is one for all processes of the machine.
    began, cpu = time.monotonic(), time.process_time()
    try:
        result = task(conn)
    except Exception as error:
        return error
    return began, time.monotonic(), time.process_time() - cpu, result
