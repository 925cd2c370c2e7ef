"""Bursts as cron runs them: what they print, how they exit, and how two of them meet."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

from kit.command import PATIENCE, CommandLine
from kit.contract import Contract
from kit.waiting import eventually

APP = """
import time
from pathlib import Path
from taskq_sync import JobContext, TaskQ

tq = TaskQ()

@tq.task(queue="q", name="noop")
def noop() -> None: ...

@tq.task(queue="q", name="fails")
def fails() -> None:
    raise ValueError("what is wrong")

@tq.task(queue="q", name="until")
def until(ctx: JobContext, file: str) -> None:
    ctx.checkpoint("begun", flush=True)
    while not Path(file).exists():
        time.sleep(0.005)
"""

HOUR = timedelta(hours=1)

BURST = ("worker", "--app", "app:tq", "--burst")


def begun(sql: Contract, job_id: int) -> bool:
    return bool(sql.job(job_id)["progress"] == "begun")


def test_is_silent_when_all_is_well(taskq: CommandLine, sql: Contract) -> None:
    sql.new_job(task="noop")
    done = taskq.run(*BURST)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert sql.value("select count(*) from taskq.finished where status = 'succeeded'") == 1


def test_says_more_when_it_is_asked_to(taskq: CommandLine) -> None:
    done = taskq.run(*BURST, "--log-level", "info")
    assert (done.code, done.out) == (0, "")
    assert "nothing is due" in done.err


def test_a_failure_is_told_and_costs_the_exit_code_where_that_is_wanted(
    taskq: CommandLine, sql: Contract
) -> None:
    sql.new_job(task="fails", backoff=HOUR)
    done = taskq.run(*BURST, "--fail-on-error")
    assert (done.code, done.out) == (4, "")
    assert "what is wrong" in done.err
    sql.new_job(task="fails", backoff=HOUR)
    assert taskq.run(*BURST).code == 0
    sql.new_job(task="noop")
    assert taskq.run(*BURST, "--fail-on-error").code == 0


def test_json_is_one_object_and_all_that_is_printed(taskq: CommandLine, sql: Contract) -> None:
    for task in ("noop", "noop", "fails"):
        sql.new_job(task=task, backoff=HOUR)
    done = taskq.run(*BURST, "--json", "--fail-on-error", "--worker-id", "nightly-1")
    summary = json.loads(done.out)
    assert summary.pop("seconds") > 0
    assert summary == {
        "worker_id": "nightly-1",
        "reason": "nothing is due",
        "exit_code": 4,
        "started": 3,
        "succeeded": 2,
        "failed": 0,
        "retried": 1,
        "snoozed": 0,
        "cancelled": 0,
        "released": 0,
        "lost": 0,
        "died": 0,
        "undelivered": 0,
        "failing": 1,
        "paused": [],
    }
    assert done.code == 4


def test_json_comes_also_when_the_process_leaves_a_thread_behind(taskq: CommandLine, sql: Contract) -> None:
    job_id = sql.new_job(task="until", payload={"file": "never"})
    options = ("--json", "--max-seconds", "1s", "--soft-stop-timeout", "100ms")
    done = taskq.run(*BURST, *options)
    assert done.code == 3
    summary = json.loads(done.out)
    assert (summary["reason"], summary["exit_code"]) == ("1 s have passed", 3)
    assert sql.job(job_id)["status"] == "queued"


def test_a_burst_on_a_paused_queue_says_so(taskq: CommandLine, sql: Contract) -> None:
    sql.new_job(task="noop")
    sql.pause_queue(queue="q", actor="test")
    done = taskq.run(*BURST, "--json")
    assert done.code == 0
    assert json.loads(done.out)["paused"] == ["q"]
    assert "WARNING taskq_sync.worker queue q is paused: no job of it was looked at" in done.err


def test_the_code_of_failed_jobs_is_explained(taskq: CommandLine, sql: Contract) -> None:
    sql.new_job(task="fails", backoff=HOUR)
    done = taskq.run(*BURST, "--fail-on-error", "--log-format", "json")
    last = json.loads(done.err.splitlines()[-1])
    assert last["message"].endswith("ends with exit code 4: 1 job has failed and did not recover")


def test_a_program_without_tasks_is_told_to_import_them(taskq: CommandLine) -> None:
    (taskq.folder / "empty.py").write_text("from taskq_sync import TaskQ\ntq = TaskQ()\n")
    done = taskq.run("worker", "--app", "empty:tq")
    assert done.code == 1
    assert done.err.startswith("taskq-sync: empty:tq has no tasks: import the modules that define them")


def test_waiting_for_delayed_jobs_is_for_bursts(taskq: CommandLine) -> None:
    done = taskq.run("worker", "--app", "app:tq", "--wait-for-delayed", "5s")
    assert done.code == 2
    assert "add --burst" in done.err


def test_a_missing_client_library_is_one_sentence(taskq: CommandLine) -> None:
    (taskq.folder / "psycopg.py").write_text('raise ImportError("no pq wrapper available.")\n')
    done = taskq.run("status", env={"PYTHONPATH": str(taskq.folder)})
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("taskq-sync: psycopg finds no libpq")
    assert len(done.err.splitlines()) == 1


def test_json_is_for_bursts(taskq: CommandLine) -> None:
    done = taskq.run("worker", "--app", "app:tq", "--json")
    assert (done.code, done.out) == (2, "")
    assert "add --burst" in done.err


def test_waits_for_what_is_due_soon(taskq: CommandLine, sql: Contract) -> None:
    soon = sql.new_job(task="noop", delay="500 ms")
    later = sql.new_job(task="noop", delay="1 day")
    assert taskq.check(*BURST, "--wait-for-delayed", "1m") == ""
    assert [sql.job(each)["status"] for each in (soon, later)] == ["succeeded", "queued"]


class TestSingleton:
    def test_of_two_that_overlap_the_second_has_nothing_to_do(
        self, taskq: CommandLine, sql: Contract, tmp_path: Path
    ) -> None:
        job_id = sql.new_job(task="until", payload={"file": "go"})
        with taskq.start(*BURST, "--singleton", "nightly", "--json") as first:
            eventually(lambda: begun(sql, job_id), "the first runs its job")
            bystander = sql.new_job(task="noop")
            assert taskq.check(*BURST, "--singleton", "nightly") == ""
            second: dict[str, Any] = taskq.run(*BURST, "--singleton", "nightly", "--json").json
            assert (second["reason"], second["exit_code"], second["started"]) == ("already running", 0, 0)
            (tmp_path / "go").touch()
            out, err = first.communicate(timeout=PATIENCE)
        assert (first.returncode, err) == (0, "")
        assert (json.loads(out)["reason"], json.loads(out)["succeeded"]) == ("nothing is due", 2)
        assert sql.job(bystander)["attempt_count"] == 1

    def test_one_that_is_killed_leaves_the_name_free(self, taskq: CommandLine, sql: Contract) -> None:
        job_id = sql.new_job(task="until", payload={"file": "never"})
        with taskq.start(*BURST, "--singleton", "nightly") as first:
            eventually(lambda: begun(sql, job_id), "the first runs its job")
            first.send_signal(signal.SIGKILL)
            first.wait(PATIENCE)
        eventually(
            lambda: taskq.run(*BURST, "--singleton", "nightly", "--json").json["reason"] == "nothing is due",
            "the server has noticed that the first is gone",
        )

    def test_is_refused_behind_a_pooler(self, taskq: CommandLine) -> None:
        done = taskq.run(*BURST, "--singleton", "nightly", env={"TASKQ_POOLED": "1"})
        assert (done.code, done.out) == (1, "")
        assert "TASKQ_LISTEN_DSN" in done.err
        assert done.err.count("\n") == 1


def test_overlapping_bursts_without_a_name_share_the_jobs(taskq: CommandLine, sql: Contract) -> None:
    jobs = [sql.new_job(task="noop") for _ in range(50)]
    with taskq.start(*BURST) as first, taskq.start(*BURST) as second:
        for process in (first, second):
            assert process.communicate(timeout=PATIENCE) == ("", "")
            assert process.returncode == 0
    assert {sql.job(each)["attempt_count"] for each in jobs} == {1}
