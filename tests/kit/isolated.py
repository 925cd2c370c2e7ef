"""Tasks for child processes: `add_to` registers them, and a child finds them by `kit.isolated:tq`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kit.waiting import PATIENCE
from taskq_sync import JobContext, TaskQ
from taskq_sync.worker import Application

#: The environment variable that names a file: a child leaves its pid there and never gets to the end of its import.
SLOW_START = "TASKQ_TEST_SLOW_START"

APPLICATION = Application(app="kit.isolated:tq")


class Unsuitable(Exception):
    """Cannot be pickled, and breaks whoever tries."""

    def __reduce__(self) -> Any:
        raise RuntimeError("not to be pickled")


def wait_for(path: str) -> None:
    """Wait until the file *path* is there: the test says so, since nothing else reaches a child."""
    deadline = time.monotonic() + PATIENCE
    while not Path(path).exists():
        assert time.monotonic() < deadline, f"{path} does not come"
        time.sleep(0.005)


def leave(path: str, text: str = "") -> None:
    """Make the file *path* with *text*, at once."""
    Path(f"{path}.new").write_text(text, encoding="ascii")
    Path(f"{path}.new").rename(path)


def add_to(tq: TaskQ, **options: Any) -> None:
    """Register the tasks; *options* go to all of them."""

    def task(name: str, **more: Any) -> Any:
        return tq.task(
            **{"name": name, "queue": "q", "isolation": "process", "backoff": 0, **options, **more}
        )

    @task("where")
    def where() -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "main": threading.current_thread() is threading.main_thread(),
            "argv": sys.argv,
        }

    @task("add")
    def add(a: int, b: int) -> int:
        return a + b

    @task("fail")
    def fail(message: str) -> None:
        raise Unsuitable(message)

    @task("return_nonsense")
    def return_nonsense() -> object:
        return object()

    @task("die_by_signal")
    def die_by_signal(number: int) -> None:
        os.kill(os.getpid(), number)

    @task("leave_process")
    def leave_process(code: int) -> None:
        os._exit(code)

    @task("exit")
    def exit_(code: int) -> None:
        sys.exit(code)

    @task("hang", timeout=0.3)
    def hang(pid_file: str) -> None:
        program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        leave(pid_file, f"{os.getpid()} {program.pid}")
        ctypes.PyDLL(None).usleep(60_000_000)  # with the GIL held

    @task("hold_the_interpreter")
    def hold_the_interpreter(pid_file: str) -> None:
        leave(pid_file, str(os.getpid()))
        ctypes.PyDLL(None).usleep(60_000_000)

    @task("stop_in_time", timeout=0.3)
    def stop_in_time(ctx: JobContext) -> str:
        while not ctx.should_stop:
            time.sleep(0.01)
        return f"{ctx.deadline.seconds:g} {ctx.deadline.expired}"

    @task("obey")
    def obey(ctx: JobContext, started: str) -> None:
        leave(started, str(os.getpid()))
        while True:
            ctx.raise_if_cancelled()
            time.sleep(0.01)

    @task("ignore_everything")
    def ignore_everything(ctx: JobContext, started: str) -> None:
        ctx.checkpoint("here")
        leave(started, str(os.getpid()))
        time.sleep(PATIENCE)

    @task("eat", memory_limit=64 * 1024 * 1024)
    def eat(mebibytes: int) -> int:
        return len(bytearray(mebibytes * 1024 * 1024))

    @task("note")
    def note(ctx: JobContext, values: list[int], flush: bool, fail: bool) -> Any:
        before = ctx.progress
        for value in values:
            ctx.checkpoint(value, flush=flush)
        if fail and ctx.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"before": before, "now": ctx.progress, "attempt": ctx.attempt, "fence": ctx.fence}

    @task("transact")
    def transact(ctx: JobContext, fail: bool = False, die: bool = False) -> None:
        with ctx.transaction() as tx:
            tx.execute("create table if not exists made (id bigint)")
            tx.execute("insert into made values (%s)", (ctx.job.job_id,))
            tx.complete("by the transaction")
            if fail:
                raise ValueError("after all not")
        if die:
            os.kill(os.getpid(), signal.SIGKILL)

    @task("kept_here", isolation="thread")
    def kept_here() -> int:
        return os.getpid()

    @task("wait")
    def wait(started: str, go: str) -> int:
        leave(started)
        wait_for(go)
        return os.getpid()

    @task("kill_worker", isolation="thread")
    def kill_worker(starts: str) -> None:
        with Path(starts).open("a", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    @task("bystander", isolation="thread")
    def bystander(go: str) -> int:
        wait_for(go)
        return os.getpid()


if SLOW_START in os.environ:
    leave(os.environ[SLOW_START], str(os.getpid()))
    time.sleep(2 * PATIENCE)

tq = TaskQ()
add_to(tq)
