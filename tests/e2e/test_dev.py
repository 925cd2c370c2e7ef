"""`taskq-sync dev`: a server and a worker that come and go together."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kit.command import CommandLine, interrupt_group
from kit.waiting import eventually
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.embedded.lock import FileLock
from taskq_sync.worker.signals import SAME_WITHIN

APP = """
import time
from taskq_sync import TaskQ

tq = TaskQ()

@tq.task(name="slow")
def slow(ctx, seconds: float) -> str:
    ctx.checkpoint("begun", flush=True)
    time.sleep(seconds)
    return "done"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that root's server can reach; no server may be left in it."""
    made = Path(tempfile.mkdtemp(prefix="taskq-dev-"))
    made.chmod(0o711)
    yield made
    lock = FileLock.exclusive(made / "db" / "server.lock")
    shutil.rmtree(made)
    assert lock is not None, "the test leaves a server behind"
    lock.release()


@pytest.fixture
def taskq(folder: Path) -> CommandLine:
    (folder / "app.py").write_text(
        APP.replace("ctx,", "ctx: JobContext,").replace("TaskQ\n", "JobContext, TaskQ\n", 1)
    )
    return CommandLine(folder, None)


def dsn_of(process: subprocess.Popen[str]) -> str:
    """Wait for the line with the DSN."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("TASKQ_DSN=postgresql://"), line + process.communicate()[1]
    return line.strip().removeprefix("TASKQ_DSN=")


def state_of(conn: psycopg.Connection[tuple[object, ...]], job_id: int) -> tuple[object, object]:
    row = conn.execute("select status, progress from taskq.job_view where id = %s", (job_id,)).fetchone()
    assert row is not None
    return row[0], row[1]


def enqueue(conn: psycopg.Connection[tuple[object, ...]], seconds: float) -> int:
    query = "select job_id from taskq.enqueue('default', 'slow', jsonb_build_object('seconds', %s::float8))"
    row = conn.execute(query, (seconds,)).fetchone()
    assert row is not None
    return int(str(row[0]))


def worker_of(conn: psycopg.Connection[tuple[object, ...]], other_than: object = None) -> int:
    """Wait for a worker that serves, and return its process id."""
    found = []

    def serves() -> bool:
        rows = conn.execute(
            "select info ->> 'pid' from taskq.workers where info ->> 'state' = 'running'"
        ).fetchall()
        found[:] = [int(str(pid)) for (pid,) in rows if int(str(pid)) != other_than]
        return bool(found)

    eventually(serves, "a worker serves")
    return found[0]


def result_of(conn: psycopg.Connection[tuple[object, ...]], job_id: int) -> object:
    """Wait until the job has succeeded, and return its result."""
    eventually(lambda: state_of(conn, job_id)[0] == "succeeded", "the job is run")
    row = conn.execute("select result from taskq.job_view where id = %s", (job_id,)).fetchone()
    assert row is not None
    return row[0]


def edit(path: Path, before: str, after: str) -> None:
    """Save the file the way most editors do: a new one takes the place of the old one."""
    text = path.read_text()
    assert before in text
    new = path.with_suffix(".new")
    new.write_text(text.replace(before, after))
    new.replace(path)


def test_gives_a_migrated_database_without_an_application(taskq):
    with taskq.start("dev", "--folder", "db") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            assert conn.execute("select count(*) from taskq.jobs").fetchone() == (0,)
        interrupt_group(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said == "no worker without --app or --import; Ctrl-C stops the database\n"


@pytest.mark.parametrize("stop", ["Ctrl-C", "SIGTERM"])
def test_a_stop_lets_running_jobs_end_and_keeps_the_others(taskq, folder, stop):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq", "--slots", "1") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            running = enqueue(conn, 0.5)
            eventually(lambda: state_of(conn, running) == ("running", "begun"), "the job runs")
            waiting = enqueue(conn, 0)
        if stop == "Ctrl-C":
            interrupt_group(process)
        else:
            process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    with EmbeddedServer(folder / "db") as server, psycopg.connect(server.dsn, autocommit=True) as conn:
        assert state_of(conn, running)[0] == "succeeded"
        assert state_of(conn, waiting)[0] in ("queued", "succeeded")
        assert conn.execute("select * from taskq.check_integrity()").fetchall() == []


def test_a_second_interrupt_does_not_wait_and_loses_nothing(taskq, folder):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            stuck = enqueue(conn, 3600)
            eventually(lambda: state_of(conn, stuck) == ("running", "begun"), "the job runs")
            interrupt_group(process)
            eventually(lambda: is_stopping(conn), "the worker has heard of it")
            time.sleep(SAME_WITHIN + 0.1)
            interrupt_group(process)
        process.communicate(timeout=60)
    assert process.returncode == 3
    with EmbeddedServer(folder / "db") as server, psycopg.connect(server.dsn, autocommit=True) as conn:
        assert state_of(conn, stuck) == ("queued", "begun")


def is_stopping(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = conn.execute("select info ->> 'state' from taskq.workers").fetchone()
    return row == ("stopping",)


def test_ends_with_its_worker(taskq):
    """A worker that cannot start is no reason to keep a database running."""
    with taskq.start("dev", "--folder", "db", "--app", "nowhere") as process:
        out, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out.startswith("TASKQ_DSN=")
    assert "there is no module 'nowhere'" in said


def test_keeps_data_for_the_next_time(taskq):
    for expected in (1, 2):
        with taskq.start("dev", "--folder", "db") as process:
            with psycopg.connect(dsn_of(process), autocommit=True) as conn:
                enqueue(conn, 0)
                assert conn.execute("select count(*) from taskq.jobs").fetchone() == (expected,)
            interrupt_group(process)
            process.communicate(timeout=60)


def test_the_worker_logs_in_the_form_that_is_asked_for(taskq):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq", "--log-format", "json") as process:
        dsn_of(process)
        line = process.stderr.readline()
        interrupt_group(process)
        _, said = process.communicate(timeout=60)
    lines = [json.loads(each) for each in [line, *said.splitlines()]]
    assert {each["logger"] for each in lines} == {"taskq_sync.worker"}


def test_a_changed_file_starts_the_worker_anew_beside_the_same_server(taskq, folder):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            first = worker_of(conn)
            assert result_of(conn, enqueue(conn, 0)) == "done"
            edit(folder / "app.py", '"done"', '"made"')
            worker_of(conn, other_than=first)
            assert result_of(conn, enqueue(conn, 0)) == "made"
        interrupt_group(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert said.count("app.py has changed: the worker starts anew") == 1


def test_a_module_that_the_program_imports_counts_too(taskq, folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "words.py").write_text('word = "old"')
    edit(folder / "app.py", 'return "done"', "from parts.words import word; return word")
    with taskq.start("dev", "--folder", "db", "--app", "app:tq") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            first = worker_of(conn)
            edit(folder / "parts" / "words.py", "old", "new")
            worker_of(conn, other_than=first)
            assert result_of(conn, enqueue(conn, 0)) == "new"
        interrupt_group(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_a_mistake_in_a_changed_file_is_shown_and_the_next_change_is_tried(taskq, folder):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            first = worker_of(conn)
            edit(folder / "app.py", 'return "done"', 'return "done')
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            assert any("SyntaxError" in line for line in lines)
            assert any("it starts again after the next change" in line for line in lines)
            edit(folder / "app.py", 'return "done', 'return "better"')
            worker_of(conn, other_than=first)
            assert result_of(conn, enqueue(conn, 0)) == "better"
        interrupt_group(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_a_handler_that_runs_too_long_for_a_reload_is_given_back(taskq, folder):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            first = worker_of(conn)
            job = enqueue(conn, 3600)
            eventually(lambda: state_of(conn, job) == ("running", "begun"), "the job runs")
            edit(folder / "app.py", "time.sleep(seconds)", "seconds = 0")
            worker_of(conn, other_than=first)
            assert result_of(conn, job) == "done"
            verbs = conn.execute(
                "select verb from taskq.job_history(%s) order by attempt_id", (job,)
            ).fetchall()
        interrupt_group(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert verbs == [("release",), ("complete",)]


def test_a_worker_that_has_died_is_started_again(taskq):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            first = worker_of(conn)
            os.kill(first, signal.SIGKILL)
            worker_of(conn, other_than=first)
        interrupt_group(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "the worker was killed by signal 9 (SIGKILL); it starts again in" in said


def test_without_reload_it_stays_as_it_was_started(taskq, folder):
    with taskq.start("dev", "--folder", "db", "--app", "app:tq", "--no-reload") as process:
        with psycopg.connect(dsn_of(process), autocommit=True) as conn:
            first = worker_of(conn)
            edit(folder / "app.py", '"done"', '"made"')
            assert result_of(conn, enqueue(conn, 1)) == "done"
        os.kill(first, signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL, said
