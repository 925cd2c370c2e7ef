"""`worker --processes`: several processes under a supervisor that outlives and replaces them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from kit.command import PATIENCE, CommandLine, interrupt_group
from kit.contract import Contract, Row
from kit.waiting import eventually

APP = """
import os, sys, time
from pathlib import Path
from taskq_sync import JobContext, TaskQ

if Path("crash").exists():
    with open("crash", "a") as file:
        file.write(f"{os.getpid()}\\n")
    os.kill(os.getpid(), 9) if Path("crash").read_text().startswith("kill") else sys.exit(7)

tq = TaskQ()
kept = []

@tq.task(queue="q", name="noop")
def noop(number: int = 0) -> int:
    return os.getpid()

@tq.task(queue="q", name="ask")
def ask(ctx: JobContext, file: str) -> str:
    ctx.checkpoint("begun", flush=True)
    while not (Path(file).exists() or ctx.should_stop):
        time.sleep(0.005)
    return "hurried" if ctx.should_stop else "had its time"

@tq.task(queue="q", name="until")
def until(ctx: JobContext, file: str, grow: int = 0) -> int:
    kept.append(b"x" * grow)
    ctx.checkpoint("begun", flush=True)
    while not Path(file).exists():
        time.sleep(0.005)
    return os.getpid()
"""

Start = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def supervise(taskq: CommandLine, sql: Contract) -> Start:
    """Start a supervisor and wait until all its processes serve."""

    @contextmanager
    def start(*options: str, processes: int = 2) -> Iterator[subprocess.Popen[str]]:
        words = ("--app", "app:tq", "--slots", "2", "--take-back-every", "100ms", *options)
        with taskq.start("worker", *words, "--processes", str(processes)) as process:
            eventually(
                lambda: len(serving(sql)) == processes or process.poll() is not None, "all processes serve"
            )
            assert process.poll() is None, process.communicate()
            try:
                yield process
            finally:
                process.kill()
                for each in workers(sql):  # of a test that has failed: nobody waits for its jobs
                    kill(each["pid"])

    return start


def workers(sql: Contract) -> list[Row]:
    """What the workers say of themselves, by the number of their place."""
    rows = sql.rows("select worker_id, info from taskq.workers order by info -> 'process'")
    return [{"worker_id": row["worker_id"], **row["info"]} for row in rows]


def serving(sql: Contract) -> list[Row]:
    return [each for each in workers(sql) if each["state"] == "running"]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, logged = process.communicate(timeout=PATIENCE)
    return process.returncode, logged


def begin(sql: Contract, number: int, *, task: str = "until", **payload: object) -> list[int]:
    """Enqueue jobs that wait for the file `go`, and wait until they run."""
    jobs = [sql.new_job(task=task, payload={"file": "go", **payload}, backoff="0 s") for _ in range(number)]
    eventually(lambda: all(sql.job(job)["progress"] == "begun" for job in jobs), "the handlers run")
    return jobs


def outcomes(sql: Contract, jobs: list[int]) -> set[tuple[str, int]]:
    """How the jobs ended, and after how many attempts; a job that was given back unstarted has had none."""
    return {(sql.job(job)["status"], len(sql.job_history(job_id=job))) for job in jobs}


def test_each_process_shows_its_place_and_its_supervisor(supervise: Start, sql: Contract) -> None:
    with supervise(processes=3) as process:
        shown = workers(sql)
        process.terminate()
        code, logged = end(process)
    assert code == 0, logged
    assert [each["process"] for each in shown] == [0, 1, 2]
    assert len({each["worker_id"] for each in shown}) == len({each["pid"] for each in shown}) == 3
    [supervisor] = {each["supervisor"] for each in shown}
    assert f"supervisor {supervisor} runs 3 processes" in logged
    assert logged.count("is started: pid") == 3
    assert workers(sql) == []


@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C"])
def test_a_signal_lets_the_jobs_of_all_processes_end(
    supervise: Start, sql: Contract, tmp_path: Path, how: str
) -> None:
    """B69, B70: at a terminal the signal is for the whole group, and each process hears of it once."""
    with supervise() as process:
        jobs = begin(sql, 4)
        process.terminate() if how == "SIGTERM" else interrupt_group(process)
        eventually(lambda: not serving(sql), "the stop has begun")
        (tmp_path / "go").touch()
        code, logged = end(process)
    assert code == 0, logged
    assert outcomes(sql, jobs) == {("succeeded", 1)}
    assert len({sql.job(job)["result"] for job in jobs}) == 2, "both processes have run some"


def test_a_signal_to_the_processes_and_to_the_supervisor_is_one_signal(
    supervise: Start, sql: Contract, tmp_path: Path
) -> None:
    """As systemd sends it, unless told otherwise: to all processes of a service."""
    with supervise() as process:
        jobs = begin(sql, 2, task="ask")
        for each in workers(sql):
            os.kill(each["pid"], signal.SIGTERM)
        eventually(lambda: not serving(sql), "the processes have heard it")
        process.terminate()
        assert process.stderr is not None
        while "are told to stop" not in process.stderr.readline():
            pass
        time.sleep(1.0)  # nothing is to come of it
        (tmp_path / "go").touch()
        code, logged = end(process)
    assert code == 0, logged
    assert [sql.job(job)["result"] for job in jobs] == ["had its time"] * 2


def test_a_second_signal_waits_for_no_process(supervise: Start, sql: Contract) -> None:
    with supervise() as process:
        jobs = begin(sql, 4)
        process.terminate()
        eventually(lambda: not serving(sql), "the stop has begun")
        process.send_signal(signal.SIGINT)
        code, logged = end(process)
    assert code == 3, logged
    assert "second SIGINT: 2 processes are told to wait no longer" in logged
    assert "second request to stop: waiting no longer" in logged
    assert [sql.job(job)["status"] for job in jobs] == ["queued"] * 4
    assert {row["reason"] for job in jobs for row in sql.job_history(job_id=job)} == {"worker_shutdown"}


def test_a_killed_process_is_replaced_and_its_jobs_are_taken_back(
    supervise: Start, sql: Contract, tmp_path: Path
) -> None:
    """B71."""
    with supervise("--lease", "3s") as process:
        jobs = begin(sql, 4)
        first = workers(sql)[0]
        kill(first["pid"])
        eventually(
            lambda: any(each["process"] == 0 and each["pid"] != first["pid"] for each in serving(sql)),
            "another one serves in its place",
        )
        (tmp_path / "go").touch()
        eventually(lambda: {status for status, _ in outcomes(sql, jobs)} == {"succeeded"}, "all jobs are run")
        process.terminate()
        code, logged = end(process)
    assert code == 0, logged
    assert max(attempts for _, attempts in outcomes(sql, jobs)) > 1
    assert "was killed by signal 9 (SIGKILL); the next one starts in" in logged
    sql.run("delete from taskq.workers")


def test_a_killed_supervisor_ends_its_processes_softly(
    supervise: Start, sql: Contract, tmp_path: Path
) -> None:
    with supervise() as process:
        jobs = begin(sql, 4)
        process.kill()
        eventually(lambda: not serving(sql), "the processes have noticed")
        (tmp_path / "go").touch()
        _, logged = end(process)
        eventually(lambda: workers(sql) == [], "the processes end")
    assert logged.count("running -> stopping: the supervisor is gone") == 2
    assert logged.count("ends with exit code 0") == 2
    assert outcomes(sql, jobs) == {("succeeded", 1)}


def test_a_supervisor_killed_during_a_stop_does_not_hurry_it(
    supervise: Start, sql: Contract, tmp_path: Path
) -> None:
    with supervise() as process:
        jobs = begin(sql, 4)
        process.terminate()
        eventually(lambda: not serving(sql), "the stop has begun")
        process.kill()
        process.wait(PATIENCE)
        (tmp_path / "go").touch()
        eventually(lambda: workers(sql) == [], "the processes end")
        end(process)
    assert outcomes(sql, jobs) == {("succeeded", 1)}


def test_a_process_that_was_told_to_stop_stays_stopped_and_the_last_one_ends_the_supervisor(
    supervise: Start, sql: Contract
) -> None:
    with supervise() as process:
        one, other = workers(sql)
        os.kill(one["pid"], signal.SIGTERM)
        eventually(lambda: len(workers(sql)) == 1, "it has left")
        os.kill(other["pid"], signal.SIGTERM)
        code, logged = end(process)
    assert code == 0, logged
    assert logged.count("ended with exit code 0 and is not replaced") == 2


@pytest.mark.parametrize(("how", "code"), [("exit", 7), ("kill", 1)])
def test_a_program_that_crashes_at_its_import_is_given_up(
    taskq: CommandLine, tmp_path: Path, how: str, code: int
) -> None:
    (tmp_path / "crash").write_text(f"{how}\n")
    done = taskq.run("worker", "--app", "app:tq", "--queues", "q", "--processes", "2")
    assert done.code == code, done.err
    assert len((tmp_path / "crash").read_text().split()[1:]) == 3, "the second process was never started"


@pytest.mark.parametrize(
    ("options", "env", "code", "message"),
    [
        (("--app", "nowhere"), {}, 1, "there is no module 'nowhere'"),
        (("--app", "app:tq"), {"TASKQ_DSN": "host=127.0.0.1 port=1 dbname=x"}, 69, "taskq-sync: could not connect"),
        (("--app", "app:tq", "--max-memory-per-child", "1MB"), {}, 2, "--max-memory-per-child is 1048576 bytes"),
    ],
    ids=["no program", "no database", "no room"],
)  # fmt: skip
def test_what_another_start_would_not_mend_is_said_once_and_ends_it(
    taskq: CommandLine, options: tuple[str, ...], env: dict[str, str], code: int, message: str
) -> None:
    done = taskq.run("worker", *options, "--queues", "q", "--processes", "3", env=env)
    assert done.code == code, done.err
    assert done.err.count(message) == 1, done.err


@pytest.mark.parametrize(
    "words", [("--worker-id", "me"), ("--singleton", "nightly"), ("--json",)], ids=" ".join
)
def test_what_is_for_one_process_is_refused(taskq: CommandLine, words: tuple[str, ...]) -> None:
    done = taskq.run("worker", "--app", "app:tq", "--burst", "--processes", "2", *words)
    assert done.code == 2
    assert f"{words[0]} is for one process" in done.err


def test_processes_are_replaced_after_some_jobs_and_nothing_is_lost(
    supervise: Start, sql: Contract, tmp_path: Path
) -> None:
    with supervise("--max-jobs-per-child", "20") as process:
        [held] = begin(sql, 1)
        jobs = [sql.new_job(task="noop") for _ in range(120)]
        eventually(lambda: outcomes(sql, jobs) == {("succeeded", 1)}, "all jobs are run, each once")
        assert sql.job(held)["status"] == "running", "it has its time, in a process that is to be replaced"
        (tmp_path / "go").touch()
        eventually(lambda: sql.job(held)["status"] == "succeeded", "the last one is run")
        process.terminate()
        code, logged = end(process)
    assert code == 0, logged
    assert outcomes(sql, [held]) == {("succeeded", 1)}
    assert len({sql.job(job)["result"] for job in jobs}) >= 3
    assert logged.count("is to be replaced: it has run 20 jobs") >= 2
    assert "the next one starts in" not in logged, "no pause before a replacement"


def test_a_process_that_has_grown_is_replaced_when_its_jobs_have_ended(
    supervise: Start, sql: Contract, tmp_path: Path
) -> None:
    with supervise("--max-memory-per-child", "400MB", processes=1) as process:
        [before] = workers(sql)
        jobs = begin(sql, 2, grow=250 * 1024 * 1024)
        eventually(lambda: workers(sql)[0]["state"] == "stopping", "the process is to be replaced")
        (tmp_path / "go").touch()
        eventually(
            lambda: serving(sql) and workers(sql)[0]["pid"] != before["pid"],
            "another one serves in its place",
        )
        process.terminate()
        code, logged = end(process)
    assert code == 0, logged
    assert outcomes(sql, jobs) == {("succeeded", 1)}
    assert "MiB of memory, the limit is 400 MiB" in logged


def test_a_burst_ends_when_all_processes_have_ended(taskq: CommandLine, sql: Contract) -> None:
    jobs = [sql.new_job(task="noop") for _ in range(100)]
    done = taskq.run("worker", "--app", "app:tq", "--burst", "--processes", "2", "--log-level", "info")
    assert done.code == 0, done.err
    assert outcomes(sql, jobs) == {("succeeded", 1)}
    assert done.err.count("is started: pid") == 2
