"""The way of a job through the command line, as processes against a real database."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kit.command import CommandLine
from taskq_sync.version import __version__

APP = """
from taskq_sync import TaskQ

tq = TaskQ()

@tq.task(queue="mail", name="mail.welcome", max_attempts=8)
def welcome(user_id: int) -> str:
    return f"welcome, {user_id}"
"""


@pytest.fixture
def taskq(tmp_path, empty_dsn):
    (tmp_path / "app.py").write_text(APP)
    return CommandLine(tmp_path, empty_dsn)


@pytest.mark.parametrize("schema", ["taskq", "My-Queue"])
def test_a_job_goes_all_the_way_in_any_schema(taskq, schema):
    env = {"TASKQ_SCHEMA": schema}
    taskq.check("migrate", env=env)
    enqueued = taskq.run(
        "enqueue", "mail.welcome", '{"user_id": 7}', "--app", "app:tq", "--json", env=env
    ).json
    worked = taskq.run("worker", "--import", "app", "--burst", "--schema", schema)
    assert worked.code == 0, worked.err
    shown = taskq.run("jobs", "show", str(enqueued["job_id"]), "--json", env=env).json
    assert (shown["job"]["status"], shown["job"]["result"]) == ("succeeded", "welcome, 7")
    assert [each["verb"] for each in shown["attempts"]] == ["complete"]
    assert taskq.run("status", "--json", env=env).json["schema"] == schema


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("status", "--dsn", "postgresql://u:secret@127.0.0.1:1/x"), 69, "Connection refused"),
        (("status",), 1, "install it with `taskq-sync migrate`"),
        (("enqueue", "mail.goodbye", "--app", "app:tq"), 1, "there is no task 'mail.goodbye'"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_traceback(taskq, arguments, code, said):
    done = taskq.run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.startswith("taskq-sync: ")
    assert done.err.count("\n") == 1


def test_runs_as_a_module_too():
    command = [sys.executable, "-m", "taskq_sync", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"taskq-sync, version {__version__}\n"
