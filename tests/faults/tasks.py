"""What the workers of the scenarios run: `taskq-sync worker --import faults.tasks`.

Each handler records its start and its end in the ledger, with its fence.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import ctypes
import os
import queue
import re
import select
import signal
import socket
import subprocess
import threading
import time

import psycopg
import psycopg.errors

from faults import injection
from faults.ledger import recorded
from taskq_sync import JobContext, TaskQ, errors
from taskq_sync.clock import monotonic

injection.prepare()
tq = TaskQ()


class OwnBaseException(BaseException):
    """What a program may define."""


@tq.task(queue="q", name="nap")
def nap(ctx: JobContext, seconds: float = 0.0, again: float = 0.0, polite: bool = False) -> int:
    """Sleep, in the first attempt for *seconds*, later for *again*; a polite one looks whether it should stop."""
    with recorded(ctx):
        until = time.monotonic() + (seconds if ctx.attempt == 1 else again)
        while (left := until - time.monotonic()) > 0:
            if polite:
                ctx.raise_if_cancelled()
            # not time.sleep, whose absolute times faketime does not understand
            select.select([], [], [], min(left, 0.02) if polite else left)
        return ctx.attempt


@tq.task(queue="q", name="spin")
def spin(ctx: JobContext, seconds: float) -> None:
    """Keep the interpreter busy in Python code."""
    with recorded(ctx):
        until, rounds = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            rounds += 1


@tq.task(queue="q", name="hold_gil")
def hold_gil(ctx: JobContext, kind: str, size: int) -> None:
    """Keep the interpreter in one call of C code that gives nobody else a turn; sleep in the first attempt only."""
    with recorded(ctx):
        if kind == "regex":
            re.match(r"(a+)+$", "a" * size + "b")
        elif kind == "sum":
            sum(range(size))
        elif ctx.attempt == 1:
            ctypes.PyDLL(None).sleep(size)
            ctx.raise_if_cancelled()


@tq.task(queue="q", name="die", max_attempts=3, backoff=0)
def die(ctx: JobContext, number: int = signal.SIGKILL) -> None:
    """Kill the process, in every attempt."""
    with recorded(ctx):
        os.kill(os.getpid(), number)
        time.sleep(60)


@tq.task(queue="q", name="leave", backoff=0)
def leave(ctx: JobContext, code: int) -> int:
    """Leave the process without a word, in the first attempt."""
    with recorded(ctx):
        if ctx.attempt == 1:
            os._exit(code)
        return ctx.attempt


RAISED: dict[str, BaseException] = {
    "SystemExit(0)": SystemExit(0),
    "SystemExit(1)": SystemExit(1),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "OwnBaseException": OwnBaseException(),
    "CancelledError": asyncio.CancelledError(),
    "StopIteration": StopIteration(),
    "StopAsyncIteration": StopAsyncIteration(),
    "MemoryError": MemoryError(),
    "RecursionError": RecursionError(),
    "TimeoutError": TimeoutError(),
    "concurrent.futures.TimeoutError": concurrent.futures.TimeoutError(),
    "concurrent.futures.CancelledError": concurrent.futures.CancelledError(),
    "queue.Empty": queue.Empty(),
    "queue.Full": queue.Full(),
    "InterruptedError": InterruptedError(),
    "BrokenPipeError": BrokenPipeError(),
    "ConnectionResetError": ConnectionResetError(),
    "psycopg.OperationalError": psycopg.OperationalError("the connection is closed"),
    "psycopg.InterfaceError": psycopg.InterfaceError("the connection is closed"),
    "UniqueViolation": psycopg.errors.UniqueViolation("duplicate key"),
    "AdminShutdown": psycopg.errors.AdminShutdown("terminating connection"),
    "SerializationFailure": psycopg.errors.SerializationFailure("could not serialize"),
    **{
        name: kind("raised by a handler")
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.TaskQError)
    },
}


@tq.task(queue="q", name="throw", max_attempts=1)
def throw(ctx: JobContext, what: str) -> None:
    """Raise one of `RAISED`."""
    with recorded(ctx):
        raise copy.copy(RAISED[what])


@tq.task(queue="q", name="stumble", max_attempts=5, backoff=0)
def stumble(ctx: JobContext, seconds: float = 0.0) -> None:
    """Fail in the first attempt."""
    with recorded(ctx):
        time.sleep(seconds)
        if ctx.attempt == 1:
            raise ValueError("the first time it fails")


@tq.task(queue="q", name="keep_connections")
def keep_connections(ctx: JobContext, seconds: float) -> None:
    """Take a connection of the client's pool and the one for transactions, and hold both."""
    with recorded(ctx), tq.database.connection(60.0), ctx.transaction() as tx:
        tx.execute("select 1")
        time.sleep(seconds)
        tx.complete()


@tq.task(queue="q", name="transact", max_attempts=5, backoff=0)
def transact(ctx: JobContext, seconds: float = 0.0) -> None:
    """Write a row and complete, in one transaction."""
    with recorded(ctx), ctx.transaction() as tx:
        tx.execute("insert into effects (job_id, fence) values (%s, %s)", (ctx.job.job_id, ctx.fence))
        time.sleep(seconds)
        tx.complete({"fence": ctx.fence})


@tq.task(queue="q", name="follow")
def follow(ctx: JobContext, jobs: int) -> None:
    """Enqueue naps, each by a call of its own."""
    with recorded(ctx):
        for _ in range(jobs):
            nap.using(unique_key=f"{ctx.job.job_id}-{_}").enqueue()


@tq.task(queue="paused", name="nightly", unique=True, unique_scope="waiting")
def nightly(ctx: JobContext) -> None:
    """Do what a clock asks for again and again."""
    with recorded(ctx):
        pass


@tq.task(queue="q", name="tick")
def tick(ctx: JobContext) -> str:
    """Ask for the nightly job, as a clock would, and tell what was answered."""
    with recorded(ctx):
        return nightly.enqueue().status


@tq.task(queue="q", name="clocks")
def clocks(ctx: JobContext) -> dict[str, float]:
    """Tell what this process believes of the time."""
    with recorded(ctx):
        return {"wall": time.time(), "monotonic": time.monotonic(), "leases": monotonic()}


@tq.task(queue="q", name="run_program")
def run_program(ctx: JobContext, seconds: float) -> int:
    """Wait for a program in the group of the worker and return its exit code."""
    with recorded(ctx):
        return subprocess.run(["sleep", str(seconds)], check=False).returncode


@tq.task(queue="q", name="orphan")
def orphan(ctx: JobContext, seconds: float) -> None:
    """Leave a program behind whose parent ends before it."""
    with recorded(ctx):
        subprocess.run(["sh", "-c", f"sleep {seconds} &"], check=True)


@tq.task(queue="q", name="end_threads", max_attempts=1)
def end_threads(ctx: JobContext) -> None:
    """Raise SystemExit in every thread of the worker, this one too."""
    with recorded(ctx):
        for thread in threading.enumerate():
            if thread.name.startswith("taskq-") and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
                )


def _take_time(how: str, seconds: float) -> None:
    """Take so many seconds, in one of the ways that make it hard to break off."""
    if how == "sleep":
        time.sleep(seconds)
    elif how == "silent peer":
        one, two = socket.socketpair()
        with one, two:
            one.settimeout(seconds)
            with contextlib.suppress(TimeoutError):
                one.recv(1)
    elif how == "raises while it ends":
        try:
            time.sleep(seconds)
        finally:
            raise ValueError("raised while it ended")
    elif how == "swallows everything":
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(BaseException):
                time.sleep(0.05)
    elif how == "computes":
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass


@tq.task(queue="q", name="limited", timeout=1.0, interrupt=True, max_attempts=1)
def limited(ctx: JobContext, how: str, seconds: float) -> None:
    """Take some time, of which there is one second."""
    with recorded(ctx):
        _take_time(how, seconds)


@tq.task(queue="q", name="limited_process", timeout=1.0, isolation="process", max_attempts=1)
def limited_process(ctx: JobContext, how: str, seconds: float) -> None:
    """The same in a child process."""
    with recorded(ctx):
        _take_time(how, seconds)


@tq.task(queue="q", name="kill_own_process", isolation="process", max_attempts=1)
def kill_own_process(ctx: JobContext, number: int) -> None:
    """End the child process it runs in by a signal."""
    with recorded(ctx):
        os.kill(os.getpid(), number)
        time.sleep(60)
