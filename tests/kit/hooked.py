"""A program with hooks, for child processes: `add_to` registers them, and a child finds them by `kit.hooked:tq`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from taskq_sync import AttemptEnd, JobContext, TaskQ, WorkerProcess
from taskq_sync.worker import Application

#: The environment variable that names the file in which the hooks leave a line each.
STEPS = "TASKQ_TEST_STEPS"

#: The environment variable that names the hook that raises in a child process.
FAILING = "TASKQ_TEST_FAILING_HOOK"

APPLICATION = Application(app="kit.hooked:tq")


def step(name: str) -> None:
    """Leave a line with the process and *name*."""
    with Path(os.environ[STEPS]).open("a", encoding="ascii") as file:
        file.write(f"{os.getpid()} {name}\n")
    if os.environ.get(FAILING) == name.split()[0]:
        raise ValueError(f"{name} is broken")


def steps() -> list[tuple[int, str]]:
    """Return what was left: process and name."""
    lines = Path(os.environ[STEPS]).read_text(encoding="ascii").splitlines()
    return [(int(pid), name) for pid, _, name in (line.partition(" ") for line in lines)]


def add_to(tq: TaskQ) -> None:
    """Register the tasks and the hooks."""

    @tq.task(queue="q", name="isolated", isolation="process", backoff=0)
    def isolated(fail: bool = False) -> int:
        step("handler")
        if fail:
            raise LookupError("no such user")
        return os.getpid()

    @tq.task(queue="q", name="suspected", backoff=0)
    def suspected() -> int:
        step("handler")
        return os.getpid()

    @tq.task(queue="q", name="die", isolation="process", backoff=0)
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @tq.on_worker_start
    def start(worker: WorkerProcess) -> None:
        step("child_start" if worker.is_child else "worker_start")

    @tq.on_worker_stop
    def stop(worker: WorkerProcess) -> None:
        step("child_stop" if worker.is_child else "worker_stop")

    @tq.around_job
    def around(ctx: JobContext) -> Iterator[None]:
        step("enter")
        try:
            yield
        finally:
            step("leave")

    @tq.before_job
    def before(ctx: JobContext) -> None:
        step("before")

    @tq.after_job
    def after(ctx: JobContext, end: AttemptEnd) -> None:
        step(f"after {end.verb}")

    @tq.on_failure
    def failure(ctx: JobContext, error: BaseException) -> None:
        step(f"failure {type(error).__name__}")


tq = TaskQ()
add_to(tq)
