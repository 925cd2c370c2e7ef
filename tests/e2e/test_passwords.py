"""A password with every character that a URL, a shell, a format string or a file could take for something else."""

# Scenario B79.

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import conninfo, sql

from kit.command import CommandLine
from kit.waiting import eventually
from taskq_sync import DatabaseUnavailable, TaskQ
from taskq_sync.db.schema import Schema
from taskq_sync.embedded import EmbeddedServer

PASSWORD = "p@ss%20w:or/d#?&='\\\"é"
WRONG = "wr@ng%20/#?s3cret"

APP = """
from taskq_sync import TaskQ

tq = TaskQ()

@tq.task(queue="q", name="t")
def handler() -> None: ...
"""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server that asks the role `keeper` for its password; it owns the database `jobs` with the schema in it."""
    folder = Path(tempfile.mkdtemp(prefix="taskq-passwords-"))
    if os.geteuid() == 0:
        folder.chmod(0o711)
    made = EmbeddedServer(folder / "server", durable=False)
    made.start()
    with psycopg.connect(made.dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("create role keeper login password {}").format(sql.Literal(PASSWORD)))
        conn.execute("create database jobs owner keeper")
        rules = made.folder / "data" / "pg_hba.conf"
        rules.write_text("local all keeper scram-sha-256\n" + rules.read_text())
        conn.execute("select pg_reload_conf()")
    with psycopg.connect(where(made, password=PASSWORD), autocommit=True) as conn:
        Schema().migrate(conn)
    yield made
    made.stop()
    shutil.rmtree(folder)


def where(server: EmbeddedServer, **more: str) -> str:
    """The DSN of the database as key=value pairs."""
    return conninfo.make_conninfo(server.dsn, user="keeper", dbname="jobs", **more)


def url(server: EmbeddedServer, password: str) -> str:
    host = conninfo.conninfo_to_dict(server.dsn)["host"]
    return f"postgresql://keeper:{quote(password, safe='')}@/jobs?host={quote(str(host), safe='')}"


@pytest.fixture
def taskq(tmp_path: Path) -> CommandLine:
    """The command line with an environment that names no database."""
    (tmp_path / "app.py").write_text(APP)
    return CommandLine(tmp_path, None)


def test_it_is_asked_for(server: EmbeddedServer) -> None:
    """Else the tests below would prove nothing."""
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(where(server, password=WRONG))


def ways(server: EmbeddedServer, folder: Path, password: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """How a command can be told the password: more arguments, and more environment."""
    file = folder / "pass"
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    file.write_text(f"*:*:jobs:keeper:{escaped}\n", encoding="utf-8")
    file.chmod(0o600)
    services = folder / "services"
    services.write_text(f"[jobs]\npassword={password}\n", encoding="utf-8")
    return {
        "URL": ([], {"TASKQ_DSN": url(server, password)}),
        "URL of a platform": ([], {"DATABASE_URL": url(server, password)}),
        "pairs": ([], {"TASKQ_DSN": where(server, password=password)}),
        "option": (["--dsn", url(server, password)], {}),
        "PGPASSWORD": ([], {"TASKQ_DSN": where(server), "PGPASSWORD": password}),
        ".pgpass": ([], {"TASKQ_DSN": where(server), "PGPASSFILE": str(file)}),
        "service": ([], {"TASKQ_DSN": where(server, service="jobs"), "PGSERVICEFILE": str(services)}),
    }


def shown_in(text: str) -> list[str]:
    """The parts of a password that stand in a text, as they are or as in a URL."""
    return [each for each in ("p@ss", "wr@ng", "s3cret", "p%40ss", "wr%40ng") if each in text]


WAYS = ["URL", "URL of a platform", "pairs", "option", "PGPASSWORD", ".pgpass", "service"]


@pytest.mark.parametrize("way", WAYS)
def test_opens_the_database_in_every_way(
    server: EmbeddedServer, taskq: CommandLine, tmp_path: Path, way: str
) -> None:
    arguments, env = ways(server, tmp_path, PASSWORD)[way]
    done = taskq.run("enqueue", "t", "--queue", "q", *arguments, env=env)
    assert (done.code, done.err) == (0, "")
    assert not shown_in(done.out)


def test_opens_all_connections_of_a_worker(server: EmbeddedServer, taskq: CommandLine) -> None:
    env = {"TASKQ_DSN": url(server, PASSWORD)}
    taskq.check("enqueue", "t", "--queue", "q", env=env)
    done = taskq.run("worker", "--app", "app", "--burst", "--log-level", "debug", env=env)
    assert done.code == 0, done.err
    assert "degraded" not in done.err
    assert not shown_in(done.out + done.err)


@pytest.mark.parametrize("way", WAYS)
def test_that_is_wrong_is_told_and_not_shown(
    server: EmbeddedServer, taskq: CommandLine, tmp_path: Path, way: str
) -> None:
    arguments, env = ways(server, tmp_path, WRONG)[way]
    command = ["status"] if way != "pairs" else ["worker", "--app", "app", "--burst"]
    done = taskq.run(*command, *arguments, env=env)
    assert done.code == 69
    assert "password authentication failed" in done.err
    assert not shown_in(done.out + done.err)


@pytest.mark.parametrize("make", [url, lambda server, password: where(server, password=password)])
def test_is_in_no_repr_and_no_error_of_a_client(server: EmbeddedServer, make) -> None:
    with TaskQ(make(server, PASSWORD)) as tq, tq.database.connection() as session:
        shown = [repr(tq), repr(tq.database), repr(tq.database.config), repr(session.connection)]
    with TaskQ(make(server, WRONG)) as wrong, pytest.raises(DatabaseUnavailable) as caught:
        wrong.get(1)
    error: BaseException | None = caught.value
    while error is not None:
        shown += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    assert not [text for text in shown if shown_in(text)]


def test_is_in_no_title_of_a_process(server: EmbeddedServer, taskq: CommandLine) -> None:
    """Neither of a worker nor of the process of its heartbeat, whose DSN is in the environment."""
    env = {"TASKQ_DSN": url(server, PASSWORD)}
    with taskq.start("worker", "--app", "app", "--heartbeat", "process", env=env) as process:
        eventually(lambda: children_of(process.pid), "the process of the heartbeat is there")
        for pid in (process.pid, *children_of(process.pid)):
            assert b"p%40ss" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        process.terminate()
        process.wait()


def children_of(parent: int) -> list[int]:
    """The processes that any thread of a process has started."""
    lists = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(pid) for each in lists for pid in each.read_text().split()]
