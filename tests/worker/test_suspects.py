"""Jobs whose last attempt may have killed its worker: they get a process of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import isolated
from kit.command import CommandLine
from kit.contract import Contract
from kit.waiting import eventually
from kit.workers import WorkerThread
from taskq_sync.worker.events import ChildUnavailable, JobFailed, SuspectDied

Run = Callable[..., WorkerThread]
Enqueue = Callable[..., int]

pytestmark = pytest.mark.usefixtures("isolated_tasks")


def make_suspect(sql: Contract, job_id: int) -> None:
    """Let an attempt at the job end as that of a worker that was killed."""
    assert sql.take(worker="killed")["job_id"] == job_id
    sql.run_out(job_id)
    sql.take_back()
    assert sql.job(job_id)["expiry_streak"] == 1


def test_a_suspect_runs_in_a_child_that_runs_nothing_else(
    enqueue: Enqueue, drain_isolated: Run, sql: Contract, tmp_path: Path
) -> None:
    isolated.leave(str(tmp_path / "go"))
    suspect = enqueue("bystander", go=str(tmp_path / "go"))
    make_suspect(sql, suspect)
    others = [enqueue("where", _priority=priority) for priority in (1, -1)]
    assert drain_isolated(slots=1).code == 0
    pids = {sql.job(suspect)["result"], *(sql.job(job_id)["result"]["pid"] for job_id in others)}
    assert len(pids) == 2  # the child before it was kept, and used again after it
    assert os.getpid() not in pids
    assert sql.job(suspect)["expiry_streak"] == 0


def test_without_a_way_to_start_children_a_suspect_gets_a_thread_and_the_log_says_so(
    dsn: str, enqueue: Enqueue, sql: Contract, tmp_path: Path
) -> None:
    from taskq_sync import TaskQ

    isolated.leave(str(tmp_path / "go"))
    suspect = enqueue("bystander", go=str(tmp_path / "go"))
    make_suspect(sql, suspect)
    with TaskQ(dsn) as tq:

        @tq.task(name="bystander", queue="q")
        def bystander(go: str) -> int:
            return os.getpid()

        worker = WorkerThread(tq, burst=True)
        worker.join()
    assert sql.job(suspect)["result"] == os.getpid()
    [event] = worker.of(ChildUnavailable)
    assert event.job.job_id == suspect


def test_a_suspect_that_kills_its_child_gets_no_verdict(
    enqueue: Enqueue, work_isolated: Run, sql: Contract, tmp_path: Path
) -> None:
    """A verdict would clear its name, and it would get a thread of a worker again."""
    suspect = enqueue("kill_worker", starts=str(tmp_path / "starts"), _lease="1 s", _max_attempts=10)
    make_suspect(sql, suspect)
    worker = work_isolated(take_back_every=0.1)
    eventually(lambda: sql.job(suspect)["finished_at"] is not None, "the job ends")
    assert sql.job(suspect)["outcome"] == "poison"
    assert [attempt["verb"] for attempt in sql.job_history(job_id=suspect)] == ["take_back"] * 3
    assert {event.death for event in worker.of(SuspectDied)} == {
        "the child process was killed by signal 9 (SIGKILL)"
    }
    assert not worker.of(JobFailed)


def test_a_suspect_whose_task_has_processes_anyway_fails_when_it_dies(
    enqueue: Enqueue, drain_isolated: Run, sql: Contract
) -> None:
    suspect = enqueue("die_by_signal", number=9, _max_attempts=2)
    make_suspect(sql, suspect)
    drain_isolated()
    assert [attempt["verb"] for attempt in sql.job_history(job_id=suspect)] == ["take_back", "fail"]


def test_a_job_that_kills_three_processes_ends_and_takes_no_other_with_it(
    dsn: str, enqueue: Enqueue, sql: Contract, tmp_path: Path
) -> None:
    """B06: the first time it takes 16 slots with it, then only itself."""
    go, starts = tmp_path / "go", tmp_path / "starts"
    bystanders = [enqueue("bystander", go=str(go), _lease="2 s", _max_attempts=2) for _ in range(6)]
    line = CommandLine(tmp_path, dsn)
    env = {"PYTHONPATH": str(Path(__file__).parents[1])}
    arguments = ("worker", "--app", "kit.isolated:tq", "--slots", "16", "--take-back-every", "0.2")
    with line.start(*arguments, env=env) as process:
        eventually(lambda: sql.value("select count(*) from taskq.running") == 6, "the bystanders run")
        killer = enqueue("kill_worker", starts=str(starts), _lease="2 s", _max_attempts=5)
        process.communicate(timeout=30)
        assert process.returncode == -signal.SIGKILL
        first = process.pid
    isolated.leave(str(go))
    with line.start(*arguments, env=env) as process:
        unended = "select count(*) from taskq.job_view where finished_at is null"
        eventually(lambda: not sql.value(unended), "all jobs end", timeout=60)
        later = [enqueue("bystander", go=str(go)) for _ in range(6)]
        eventually(lambda: not sql.value(unended), "it goes on with other jobs")
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0
    pids = [int(pid) for pid in starts.read_text(encoding="ascii").split()]
    assert pids[0] == first
    assert len(set(pids)) == 3
    assert process.pid not in pids
    assert (sql.job(killer)["status"], sql.job(killer)["outcome"]) == ("failed", "poison")
    ends = [(sql.job(job_id)["status"], sql.job(job_id)["attempt_count"]) for job_id in bystanders + later]
    assert ends == [("succeeded", 2)] * 6 + [("succeeded", 1)] * 6
