"""`taskq-sync dev`: a server and a worker that come and go together."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kit.command import CommandLine, interrupt_group
from kit.waiting import eventually
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.embedded.lock import FileLock

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
