"""The log of a worker that the command line has started, with its child processes."""

# Scenario B61.

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from kit.command import CommandLine
from kit.contract import Contract

APP = """
import logging, os
from taskq_sync import JobContext, TaskQ

tq = TaskQ()
logger = logging.getLogger("shop")

@tq.task(queue="q", name="here")
def here(number: int) -> None:
    logger.info("hello from %d", number)

@tq.task(queue="q", name="isolated", isolation="process")
def isolated(number: int) -> None:
    logger.info("hello from %d", number, extra={"user": 7})

@tq.task(queue="q", name="fail", isolation="process", max_attempts=1)
def fail() -> None:
    raise LookupError("no such user")

@tq.task(queue="q", name="odd", max_attempts=1)
def odd() -> None:
    name = os.fsdecode(b"caf\\xe9.txt") + " \\u00e9\\U0001f418 \\x00"
    logger.warning("cannot read %s", name, extra={"file": name})
    raise OSError(2, "no such file", name)

@tq.on_worker_start
def start(worker) -> None:
    if worker.worker_id == "broken":
        raise ValueError("no exporter")
"""


def test_json(taskq: CommandLine, sql: Contract) -> None:
    jobs = {
        sql.new_job(task="here", payload={"number": 1}): "here",
        sql.new_job(task="isolated", payload={"number": 1}): "isolated",
    }
    failing = sql.new_job(task="fail", max_attempts=1)
    done = taskq.run("worker", "--app", "app:tq", "--burst", "--log-level", "info", "--log-format", "json")
    assert done.code == 0, done.err
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.err.splitlines()]
    for line in lines:
        assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
        assert {"level", "logger", "message"} <= set(line)
    said = {line["job_id"]: line for line in lines if line["logger"] == "shop"}
    assert {job_id: line["task"] for job_id, line in said.items()} == jobs
    for line in said.values():
        assert (line["level"], line["message"]) == ("INFO", "hello from 1")
        assert (line["queue"], line["attempt"]) == ("q", 1)
        assert line.get("extra") == ({"user": 7} if line["task"] == "isolated" else None)
        [attempt] = sql.job_history(job_id=line["job_id"])
        assert line["fence"] == attempt["attempt_id"]
    [failure] = [line for line in lines if line["level"] == "WARNING"]
    assert (failure["job_id"], failure["logger"]) == (failing, "taskq_sync.worker")
    assert "LookupError: no such user" in failure["message"]


def test_text(taskq: CommandLine, sql: Contract) -> None:
    jobs = [
        sql.new_job(task="here", payload={"number": 1}),
        sql.new_job(task="isolated", payload={"number": 2}),
    ]
    done = taskq.run("worker", "--app", "app:tq", "--burst", "--log-level", "info")
    assert done.code == 0, done.err
    assert re.search(
        rf"^[-\d]+ [:,\d]+ INFO    shop \[job {jobs[0]} here attempt 1\] hello from 1$",
        done.err,
        re.MULTILINE,
    )
    assert f"INFO    shop [job {jobs[1]} isolated attempt 1] hello from 2\n" in done.err
    assert "INFO    taskq_sync.worker worker " in done.err


def test_a_start_hook_that_raises_is_a_clear_message_and_code_1(taskq: CommandLine, sql: Contract) -> None:
    done = taskq.run("worker", "--app", "app:tq", "--burst", "--worker-id", "broken", "--log-format", "json")
    assert done.code == 1
    [said] = [line for line in map(json.loads, done.err.splitlines()) if line["level"] == "CRITICAL"]
    assert said["message"] == (
        "the worker does not start: on_worker_start hook app.start raised ValueError: no exporter"
    )
    assert "in start" in said["exception"]
    assert "taskq_sync/worker/" not in said["exception"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_name_that_no_encoding_has_costs_neither_the_line_nor_the_job(
    taskq: CommandLine, sql: Contract, log_format: str
) -> None:
    """Where the locale knows ASCII only, as under cron."""
    env = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    job_id = sql.new_job(task="odd", max_attempts=1)
    done = taskq.run("worker", "--app", "app:tq", "--burst", "--log-format", log_format, env=env)
    assert done.code == 0, done.err
    assert "Logging error" not in done.err
    assert "cannot read caf" in done.err
    job = sql.job(job_id)
    assert (job["status"], job["attempt_count"]) == ("failed", 1)
    assert "caf\\udce9.txt" in job["error"]
    shown = taskq.run("jobs", "show", str(job_id), env=env)
    assert shown.code == 0, shown.err
    assert "caf" in shown.out
