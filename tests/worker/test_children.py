"""Jobs in child processes: what comes back, what becomes of those that die or will not end, and of the children."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import isolated
from kit.contract import Contract, Row
from kit.waiting import eventually
from kit.workers import WorkerThread
from taskq_sync import TaskQ
from taskq_sync.errors import ConfigError
from taskq_sync.worker import Application, Worker
from taskq_sync.worker.events import ChildKilled, ChildUnavailable, JobFailed, LeaseWasLost, PayloadMisfit

Drain = Callable[..., WorkerThread]
Work = Callable[..., WorkerThread]
Enqueue = Callable[..., int]

pytestmark = pytest.mark.usefixtures("isolated_tasks")


def ended(sql: Contract, job_id: int) -> Row:
    eventually(lambda: sql.job(job_id)["finished_at"] is not None, "the job ends")
    return sql.job(job_id)


def running(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def content(path: Path) -> str:
    eventually(path.exists, f"{path.name} is there")
    return path.read_text(encoding="ascii")


# What comes back


def test_a_job_runs_in_the_main_thread_of_another_process(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract
) -> None:
    job_id = enqueue("where")
    assert drain_isolated().code == 0
    result = sql.job(job_id)["result"]
    assert result["pid"] != os.getpid()
    assert result["parent"] == os.getpid()
    assert result["main"]


def test_a_child_is_used_again_and_replaced_in_time(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract
) -> None:
    jobs = [enqueue("where") for _ in range(5)]
    assert drain_isolated(slots=1, isolated_max_jobs=2).code == 0
    pids = [sql.job(job_id)["result"]["pid"] for job_id in jobs]
    assert sorted(Counter(pids).values()) == [1, 2, 2]
    assert not any(map(running, pids))


@pytest.mark.parametrize(
    ("task", "arguments", "status", "outcome", "error"),
    [
        ("add", {"a": 1, "b": 2}, "succeeded", "success", None),
        ("add", {"a": 1}, "failed", "non_retryable", "invalid_payload: add needs 'b'"),
        (
            "fail",
            {"message": "of all things"},
            "failed",
            "retry_exhausted",
            "kit.isolated.Unsuitable: of all things",
        ),
        ("return_nonsense", {}, "failed", "non_retryable", "invalid_result: "),
        ("exit", {"code": 4}, "failed", "retry_exhausted", "SystemExit: 4"),
    ],
)
def test_what_a_handler_does_means_the_same_as_in_a_thread(
    enqueue: Enqueue,
    drain_isolated: Drain,
    sql: Contract,
    tq: TaskQ,
    task: str,
    arguments: Row,
    status: str,
    outcome: str,
    error: str | None,
) -> None:
    job_id = enqueue(task, _max_attempts=1, **arguments)
    sql.run("update taskq.jobs set created_at = created_at - interval '1 day'")  # its payload is no mystery
    worker = drain_isolated()
    job = sql.job(job_id)
    assert (job["status"], job["outcome"]) == (status, outcome)
    assert error is None or job["error"].startswith(error)
    assert len(worker.of(JobFailed)) == (status == "failed")


def test_a_payload_that_does_not_fit_is_told_by_the_worker(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract
) -> None:
    job_id = enqueue("add", a=1)
    worker = drain_isolated()
    [event] = worker.of(PayloadMisfit)
    assert (event.job.job_id, event.reason) == (job_id, "add needs 'b'")


def test_the_traceback_of_a_handler_is_kept(enqueue: Enqueue, drain_isolated: Drain, sql: Contract) -> None:
    job_id = enqueue("fail", message="x", _max_attempts=1)
    worker = drain_isolated()
    assert "in fail\n    raise Unsuitable(message)" in sql.job(job_id)["error"]
    assert "in fail\n    raise Unsuitable(message)" in worker.of(JobFailed)[0].text
    assert "taskq_sync" not in sql.job(job_id)["error"]


# Death


@pytest.mark.parametrize(
    ("task", "arguments", "text"),
    [
        ("die_by_signal", {"number": 9}, "the child process was killed by signal 9 (SIGKILL)"),
        ("die_by_signal", {"number": 11}, "the child process was killed by signal 11 (SIGSEGV)"),
        ("leave_process", {"code": 3}, "the child process ended with exit code 3 in the middle of the job"),
        ("leave_process", {"code": 0}, "the child process ended with exit code 0 in the middle of the job"),
    ],
)
def test_the_death_of_a_child_is_a_failed_attempt_that_says_so(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract, task: str, arguments: Row, text: str
) -> None:
    job_id = enqueue(task, _max_attempts=2, **arguments)
    other = enqueue("add", a=1, b=1)
    assert drain_isolated(slots=1).code == 0
    assert [attempt["error"] for attempt in sql.job_history(job_id=job_id)] == [text, text]
    assert sql.job(job_id)["outcome"] == "retry_exhausted"
    assert sql.job(other)["attempt_count"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_mean_the_worker_do_not_end_a_job(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract, number: int
) -> None:
    job_id = enqueue("die_by_signal", number=number)
    drain_isolated()
    assert sql.job(job_id)["status"] == "succeeded"


def test_a_job_that_takes_too_much_memory_fails_alone(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract
) -> None:
    greedy = enqueue("eat", mebibytes=300, _max_attempts=1)
    modest = enqueue("eat", mebibytes=20)
    assert drain_isolated(slots=1).code == 0
    assert sql.job(greedy)["error"].startswith("MemoryError: the memory limit of 64 MiB was reached\n")
    assert "in eat" in sql.job(greedy)["error"]
    assert sql.job(modest)["result"] == 20 * 1024 * 1024


def test_a_job_that_finds_no_child_is_put_back_without_cost(
    tq: TaskQ, enqueue: Enqueue, work_isolated: Work, sql: Contract
) -> None:
    job_id = enqueue("where")
    worker = work_isolated(application=Application(app="kit.not_there:tq"))
    assert "there is no module 'kit.not_there'" in worker.wait_for(ChildUnavailable).reason
    eventually(lambda: sql.job(job_id)["status"] == "queued", "the job is put back")
    assert sql.job(job_id)["failure_count"] == 0


# The end


def test_a_handler_past_its_time_limit_is_killed_with_all_it_has_started(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract, tmp_path: Path
) -> None:
    """Neither asks for `should_stop`, and the interpreter is held: nothing but a kill can end it."""
    job_id = enqueue("hang", pid_file=str(tmp_path / "pids"), _max_attempts=1)
    assert drain_isolated().code == 0
    error = sql.job(job_id)["error"]
    assert re.match(r"taskq_sync\.errors\.JobTimeout: task hang ran longer than 0\.3 s", error)
    assert error.endswith("; its child process was killed")
    for pid in content(tmp_path / "pids").split():
        eventually(lambda pid=int(pid): not running(pid), "it is gone")  # type: ignore[misc]


def test_a_handler_that_asks_ends_by_itself(enqueue: Enqueue, drain_isolated: Drain, sql: Contract) -> None:
    job_id = enqueue("stop_in_time")
    drain_isolated(stop_grace=20)
    assert sql.job(job_id)["result"] == "0.3 True"


@pytest.mark.parametrize("task", ["obey", "ignore_everything"])
def test_a_cancelled_job_ends(
    task: str, enqueue: Enqueue, work_isolated: Work, sql: Contract, tmp_path: Path
) -> None:
    job_id = enqueue(task, started=str(tmp_path / "started"), _lease="0.6 s")
    work_isolated(stop_grace=20 if task == "obey" else 0.2)
    pid = int(content(tmp_path / "started"))
    sql.cancel_job(job_id=job_id)
    assert ended(sql, job_id)["status"] == "cancelled"
    assert running(pid) == (task == "obey")


def test_a_lost_lease_ends_the_child(
    enqueue: Enqueue, work_isolated: Work, sql: Contract, tmp_path: Path
) -> None:
    job_id = enqueue("ignore_everything", started=str(tmp_path / "started"), _lease="0.6 s")
    worker = work_isolated()
    pid = int(content(tmp_path / "started"))
    with sql.conn.transaction():  # no beat comes in between
        sql.run_out(job_id)
        sql.take_back()
    worker.wait_for(LeaseWasLost)
    eventually(lambda: not running(pid), "the child is killed")


@pytest.mark.parametrize("task", ["obey", "ignore_everything"])
def test_a_stop_that_does_not_wait_kills_and_releases(
    task: str,
    enqueue: Enqueue,
    work_isolated: Work,
    sql: Contract,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A child that had to be killed is told of as a thread that will not end is, and has the same exit code."""
    job_id = enqueue(task, started=str(tmp_path / "started"))
    worker = work_isolated(soft_stop_timeout=0, stop_grace=20)
    pid = int(content(tmp_path / "started"))
    code = worker.stop()
    killed = [event.job.job_id for event in worker.of(ChildKilled)]
    if task == "ignore_everything":
        assert killed == [job_id]
        said = "did not end: its child process was killed and the job released"
        assert f"job {job_id} ({task}, attempt 1) {said}" in caplog.messages
    assert code == (3 if killed else 0)
    [attempt] = sql.job_history(job_id=job_id)
    assert (attempt["verb"], attempt["reason"]) == ("release", "worker_shutdown")
    assert sql.job(job_id)["progress"] == ("here" if task == "ignore_everything" else None)
    assert not running(pid)


def test_a_child_dies_with_its_worker_even_while_it_holds_the_interpreter(
    dsn: str, tq: TaskQ, enqueue: Enqueue, sql: Contract, tmp_path: Path
) -> None:
    from kit.command import CommandLine

    enqueue("hold_the_interpreter", pid_file=str(tmp_path / "pid"), _lease="0.5 s")
    line = CommandLine(tmp_path, dsn)
    env = {"PYTHONPATH": str(Path(__file__).parents[1])}
    with line.start("worker", "--app", "kit.isolated:tq", env=env) as process:
        pid = int(content(tmp_path / "pid"))
        assert running(pid)
        process.kill()
        process.communicate()
        eventually(lambda: not running(pid), "the child is gone", timeout=10)


# The context


@pytest.mark.parametrize("flush", [False, True])
def test_checkpoints_survive_the_child(
    flush: bool, enqueue: Enqueue, drain_isolated: Drain, sql: Contract
) -> None:
    job_id = enqueue("note", values=[1, 2, 3], flush=flush, fail=True)
    drain_isolated()
    result = sql.job(job_id)["result"]
    assert (result["before"], result["now"], result["attempt"]) == (3, 3, 2)
    assert result["fence"] == sql.job_history(job_id=job_id)[-1]["attempt_id"]


def test_a_flushed_checkpoint_is_stored_before_the_call_returns(
    enqueue: Enqueue, drain_isolated: Drain, sql: Contract
) -> None:
    """A beat would come after 20 s only."""
    job_id = enqueue("note", values=list(range(20)), flush=True, fail=False)
    drain_isolated()
    assert sql.job(job_id)["progress"] == 19


def test_a_transaction_completes_the_job(enqueue: Enqueue, drain_isolated: Drain, sql: Contract) -> None:
    jobs = [
        enqueue("transact"),
        enqueue("transact", fail=True, _max_attempts=1),
        enqueue("transact", die=True),
    ]
    worker = drain_isolated(slots=1)
    assert [sql.job(job_id)["result"] for job_id in jobs] == [
        "by the transaction",
        None,
        "by the transaction",
    ]
    assert sql.job(jobs[1])["error"].startswith("ValueError: after all not")
    assert [row["id"] for row in sql.rows("select id from made order by id")] == [jobs[0], jobs[2]]
    assert [sql.job(job_id)["attempt_count"] for job_id in jobs] == [1, 1, 1]
    assert not worker.of(LeaseWasLost)
    sql.run("drop table made")


# The worker


def test_a_task_that_needs_children_is_refused_where_there_can_be_none(tq: TaskQ) -> None:
    with pytest.raises(ConfigError, match=r"runs in a child process.*application=Application"):
        Worker(tq)


def test_jobs_of_several_slots_run_at_the_same_time(
    enqueue: Enqueue, work_isolated: Work, sql: Contract, tmp_path: Path
) -> None:
    jobs = [enqueue("wait", started=str(tmp_path / f"{n}"), go=str(tmp_path / "go")) for n in range(3)]
    work_isolated(slots=3)
    for number in range(3):
        content(tmp_path / str(number))
    isolated.leave(str(tmp_path / "go"))
    assert len({ended(sql, job_id)["result"] for job_id in jobs}) == 3


def test_a_stop_that_does_not_wait_gives_up_a_child_that_starts(
    enqueue: Enqueue, work_isolated: Work, sql: Contract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other slots go on meanwhile."""
    monkeypatch.setenv(isolated.SLOW_START, str(tmp_path / "starting"))
    job_id = enqueue("where")
    worker = work_isolated(soft_stop_timeout=0)
    pid = int(content(tmp_path / "starting"))
    quick = enqueue("kept_here")
    assert ended(sql, quick)["result"] == os.getpid()
    assert worker.stop() == 0
    assert [attempt["reason"] for attempt in sql.job_history(job_id=job_id)] == ["worker_shutdown"]
    assert not running(pid)
