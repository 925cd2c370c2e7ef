"""The worker as a process: signals, exit codes, sudden deaths."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.command import PATIENCE, CommandLine, interrupt_group
from kit.contract import Contract
from kit.waiting import eventually
from taskq_sync.worker.signals import SAME_WITHIN

APP = """
import os, signal, subprocess, sys, time
from pathlib import Path
from taskq_sync import JobContext, TaskQ

tq = TaskQ()

def wait_for(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.005)

@tq.task(queue="q", name="noop")
def noop(number: int = 0) -> int:
    return number

@tq.task(queue="q", name="until", lease=2)
def until(ctx: JobContext, file: str) -> str:
    ctx.checkpoint("begun", flush=True)
    wait_for(file)
    return "done"

@tq.task(queue="q", name="child", lease=2)
def child(ctx: JobContext, file: str) -> int:
    program = f"import os, time; print(flush=True)\\nwhile not os.path.exists({file!r}): time.sleep(0.005)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True, bufsize=0
    ) as process:
        process.stdout.read(1)
        ctx.checkpoint("begun", flush=True)
        return process.wait()

@tq.task(queue="q", name="die")
def die(how: str) -> None:
    if how == "exit":
        os._exit(5)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def worker(taskq: CommandLine, sql: Contract) -> Callable[..., object]:
    """Start a worker process and wait until it serves: `with worker("--slots", "2") as process`."""

    @contextmanager
    def start(*options: str) -> Iterator[subprocess.Popen[str]]:
        before = sql.value("select count(*) from taskq.workers")
        with taskq.start("worker", "--app", "app:tq", *options) as process:
            eventually(
                lambda: (
                    sql.value("select count(*) from taskq.workers") > before or process.poll() is not None
                ),
                "the worker starts",
            )
            assert process.poll() is None, process.communicate()
            yield process

    return start


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of a process; return its exit code and what it logged."""
    _, logged = process.communicate(timeout=PATIENCE)
    return process.returncode, logged


def begun(sql: Contract, job_id: int) -> bool:
    return bool(sql.job(job_id)["progress"] == "begun")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_worker_with_0(worker, sql: Contract, number: signal.Signals) -> None:
    with worker() as process:
        job_id = sql.new_job(task="noop")
        eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is run")
        process.send_signal(number)
        code, logged = end(process)
    assert code == 0, logged
    assert f"running -> stopping: {number.name}" in logged
    assert sql.value("select count(*) from taskq.workers") == 0


def test_an_operator_ends_an_idle_worker_with_0(worker, taskq: CommandLine) -> None:
    with worker("--poll-interval", "1h") as process:
        [shown] = taskq.run("workers", "list", "--json").json
        assert (shown["pid"], shown["queues"]) == (process.pid, ["q"])
        taskq.check("workers", "stop", shown["worker_id"])
        code, logged = end(process)
    assert code == 0, logged
    assert "running -> stopping: an operator asked for it" in logged
    assert taskq.check("workers", "list") == "no workers\n"


def test_a_signal_lets_the_running_job_end(worker, sql: Contract, tmp_path: Path) -> None:
    """B70 (a): the job ends as if nothing had happened."""
    job_id = sql.new_job(task="until", payload={"file": "go"})
    with worker() as process:
        eventually(lambda: begun(sql, job_id), "the handler runs")
        process.terminate()
        eventually(
            lambda: sql.value("select info ->> 'state' from taskq.workers") == "stopping",
            "the stop has begun",
        )
        later = sql.new_job(task="noop")
        (tmp_path / "go").touch()
        code, logged = end(process)
    assert code == 0, logged
    assert "waiting as long as it takes for job" in logged
    assert (sql.job(job_id)["status"], sql.job(job_id)["result"]) == ("succeeded", "done")
    assert sql.job(later)["status"] == "queued"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_with_3_and_hands_the_job_back(
    worker, sql: Contract, second: signal.Signals
) -> None:
    """B70 (b) and (c)."""
    job_id = sql.new_job(task="until", payload={"file": "never"})
    with worker() as process:
        eventually(lambda: begun(sql, job_id), "the handler runs")
        process.send_signal(signal.SIGINT)
        eventually(
            lambda: sql.value("select info ->> 'state' from taskq.workers") == "stopping",
            "the stop has begun",
        )
        if second == signal.SIGINT:
            time.sleep(SAME_WITHIN + 0.1)
        process.send_signal(second)
        code, logged = end(process)
    assert code == 3, logged
    assert f"second {second.name}: waiting no longer" in logged
    job = sql.job(job_id)
    assert (job["status"], job["failure_count"], job["progress"]) == ("queued", 0, "begun")
    assert [row["reason"] for row in sql.job_history(job_id=job_id)] == ["worker_shutdown"]
    assert "wait_for" in logged, "the log shows where the handler is"


def test_a_stop_that_arrives_as_two_signals_is_one(worker, sql: Contract, tmp_path: Path) -> None:
    """GNU timeout signals its child, and then the group that it shares with it."""
    job_id = sql.new_job(task="until", payload={"file": str(tmp_path / "go")})
    with worker() as process:
        eventually(lambda: begun(sql, job_id), "the handler runs")
        process.terminate()
        process.terminate()
        eventually(
            lambda: sql.value("select info ->> 'state' from taskq.workers") == "stopping",
            "the stop has begun",
        )
        (tmp_path / "go").touch()
        code, logged = end(process)
    assert code == 0, logged
    assert sql.job(job_id)["status"] == "succeeded"


def test_the_time_to_wait_can_be_limited(worker, sql: Contract) -> None:
    job_id = sql.new_job(task="until", payload={"file": "never"})
    with worker("--soft-stop-timeout", "200ms") as process:
        eventually(lambda: begun(sql, job_id), "the handler runs")
        process.terminate()
        code, logged = end(process)
    assert code == 3, logged
    assert sql.job(job_id)["status"] == "queued"


def test_ctrl_c_reaches_the_worker_and_spares_a_child_in_a_session_of_its_own(
    worker, sql: Contract, tmp_path: Path
) -> None:
    """B69: a terminal sends SIGINT to the whole group."""
    job_id = sql.new_job(task="child", payload={"file": str(tmp_path / "go")})
    with worker() as process:
        eventually(lambda: begun(sql, job_id), "the handler runs")
        interrupt_group(process)
        eventually(
            lambda: sql.value("select info ->> 'state' from taskq.workers") == "stopping",
            "the stop has begun",
        )
        (tmp_path / "go").touch()
        code, logged = end(process)
    assert code == 0, logged
    assert sql.job(job_id)["result"] == 0


def test_a_signal_at_any_moment_leaves_no_job_behind(worker, sql: Contract) -> None:
    """B70 (d): while it claims, hands over, runs and settles."""
    for number in range(3):
        sql.conn.execute(
            "select from taskq.enqueue_many('q', (select jsonb_agg(jsonb_build_object('task', 'noop')) "
            "from generate_series(1, 400)))"
        )
        with worker("--slots", "2", "--poll-interval", "10ms") as process:
            done = sql.value("select count(*) from taskq.finished")
            eventually(
                lambda done=done, number=number: (
                    sql.value("select count(*) from taskq.finished") >= done + min(1, number)
                ),
                "it has begun",
            )
            process.terminate()
            code, logged = end(process)
        assert code == 0, logged
        assert sql.value("select count(*) from taskq.running") == 0


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_job_that_kills_its_worker_is_taken_back(worker, sql: Contract, how: str) -> None:
    """B06, B66: the death is an attempt; the next one dies alone, in a child, and the jobs beside it are run."""
    victim = sql.new_job(task="die", payload={"how": how}, max_attempts=2, backoff="0")
    with worker("--slots", "1", "--take-back-every", "50ms", "--lease", "1s") as process:
        code, _ = end(process)
    assert code == (5 if how == "exit" else -signal.SIGKILL)
    bystander = sql.new_job(task="noop")
    with worker("--take-back-every", "50ms", "--lease", "1s") as process:
        eventually(lambda: sql.job(victim)["status"] == "failed", "the job has used up its attempts")
        eventually(lambda: sql.job(bystander)["status"] == "succeeded", "the other is run")
        process.terminate()
        assert end(process)[0] == 0
    assert sql.job(victim)["outcome"] == "retry_exhausted"
    assert [row["verb"] for row in sql.job_history(job_id=victim)] == ["take_back", "take_back"]


def test_two_workers_share_a_queue_and_run_each_job_once(taskq: CommandLine, sql: Contract) -> None:
    sql.conn.execute(
        "select from taskq.enqueue_many('q', (select jsonb_agg(jsonb_build_object('task', 'noop')) "
        "from generate_series(1, 3000)))"
    )
    arguments = ("worker", "--app", "app:tq", "--burst")
    with taskq.start(*arguments) as first, taskq.start(*arguments) as second:
        assert (end(first)[0], end(second)[0]) == (0, 0)
    assert sql.value("select count(*) from taskq.finished where attempt_count = 1") == 3000


def test_a_burst_says_nothing_when_all_is_well(taskq: CommandLine, sql: Contract) -> None:
    sql.new_job(task="noop")
    done = taskq.run("worker", "--app", "app:tq", "--burst", "--log-level", "warning")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_schema_that_is_gone_for_a_moment_is_an_outage(worker, sql: Contract) -> None:
    lines: list[str] = []
    with worker("--poll-interval", "50ms") as process:
        reader = threading.Thread(target=lambda: lines.extend(process.stderr))
        reader.start()
        sql.run("alter schema taskq rename to gone")
        try:
            eventually(lambda: any("running -> degraded" in line for line in lines), "it notices")
            assert process.poll() is None
        finally:
            sql.run("alter schema gone rename to taskq")
        eventually(lambda: any("degraded -> running" in line for line in lines), "it recovers")
        process.terminate()
        assert process.wait(PATIENCE) == 0
        reader.join()


HANGING = """
import time
from pathlib import Path
from taskq_sync import TaskQ

tq = TaskQ()

@tq.on_worker_{when}
def hang(worker: object) -> None:
    Path("hangs").touch()
    while True:
        time.sleep(1)
"""


@pytest.mark.parametrize("when", ["start", "stop"])
def test_a_second_signal_ends_a_hook_of_the_process_that_does_not_end(
    taskq: CommandLine, tmp_path: Path, when: str
) -> None:
    (tmp_path / "hanging.py").write_text(HANGING.format(when=when))
    words = ("--app", "hanging:tq", "--queues", "q", "--log-level", "info")
    with taskq.start("worker", *words, "--burst") as process:
        eventually((tmp_path / "hangs").exists, "the hook hangs")
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)
        process.send_signal(signal.SIGINT)  # SIGTERM again, so soon after, might be taken for the same one
        code, logged = end(process)
    assert code == 3, logged
    assert "ends with exit code 3" in logged
