"""Every connection of the library is made with the whole connection string: client, worker and commands."""

# Scenario B80.

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kit.command import InProcess
from kit.workers import WorkerThread
from taskq_sync import DatabaseUnavailable, JobContext, TaskQ
from taskq_sync.db.session import BoundedConnection

GIVEN = {
    "options": "-c search_path=x -c work_mem=1234kB",
    "keepalives_idle": "77",
    "target_session_attrs": "read-write",
}

#: The parts that connect, by the end of their `application_name`.
PARTS = {"client", "cli", "claimer", "settler", "heartbeat", "housekeeper", "listener", "transaction"}


def run_a_job(tq: TaskQ) -> WorkerThread:
    """Have a worker run a job that uses everything there is."""

    @tq.task(name="t", queue="q")
    def handler(ctx: JobContext) -> None:
        ctx.checkpoint("begun", flush=True)
        with ctx.transaction() as tx:
            tx.execute("select 1")

    plain = tq.task(name="plain", queue="q")(lambda: None)
    jobs = [handler.enqueue(), plain.enqueue()]
    worker = WorkerThread(tq, slots=1, burst=True)
    assert worker.join() == 0
    assert [tq.get(job).status for job in jobs] == ["succeeded"] * 2
    return worker


def test_every_connection_has_every_parameter(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[dict[str, str], str]] = []
    connect = BoundedConnection.connect

    def recorded(*arguments: Any, **options: Any) -> BoundedConnection:
        conn = connect(*arguments, **options)
        [(work_mem,)] = conn.execute("show work_mem").fetchall()
        made.append((conn.info.get_parameters(), work_mem))
        return conn

    monkeypatch.setattr(BoundedConnection, "connect", recorded)
    whole = make_conninfo(dsn, **GIVEN)
    with TaskQ(whole) as tq:
        run_a_job(tq)
        tq.database.listen("taskq-x-listener").close()
    for command in ("migrate", "status", "housekeep", "jobs list"):
        InProcess().check(*command.split(), "--dsn", whole)

    wanted = {**conninfo_to_dict(dsn), **GIVEN}
    for parameters, work_mem in made:
        assert {name: parameters.get(name) for name in wanted} == wanted
        assert work_mem == "1234kB"
    names = {parameters["application_name"].rpartition("-")[2] for parameters, _ in made}
    assert names >= PARTS


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that names no database."""
    for name in [*os.environ]:
        if name.startswith(("PG", "TASKQ_DSN", "DATABASE_URL")):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def place(dsn: str) -> dict[str, str]:
    """User, database and folder of the socket of the server."""
    given = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    if not given.get("host", "").startswith("/"):
        pytest.skip("the server of the tests has no Unix socket")
    return {"user": given["user"], "dbname": given["dbname"], "host": given["host"]}


FORMS: dict[str, Callable[[dict[str, str]], str]] = {
    "socket as a parameter": lambda at: "postgresql://{user}@/{dbname}?host={host}".format(**at),
    "socket as the host": lambda at: "postgresql://{user}@{host}/{dbname}".format(
        **{**at, "host": at["host"].replace("/", "%2F")}
    ),
    "several hosts": lambda at: (
        "host=/nowhere,{host} port=1,5432 user={user} dbname={dbname} target_session_attrs=read-write".format(
            **at
        )
    ),
    "variables": lambda at: "",
    "service": lambda at: "service=jobs",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_connection_string_will_do(
    place: dict[str, str], unnamed: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    whole = FORMS[form](place)
    if form == "variables":
        for name, value in (("HOST", "host"), ("USER", "user"), ("DATABASE", "dbname")):
            unnamed.setenv(f"PG{name}", place[value])
    if form == "service":
        lines = ["[jobs]", *(f"{name}={value}" for name, value in place.items())]
        (tmp_path / "services").write_text("\n".join(lines) + "\n")
        unnamed.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    if whole:
        unnamed.setenv("TASKQ_DSN", whole)
    with TaskQ() as tq:
        run_a_job(tq)
        assert tq.database.config.dsn == whole
    for command in ("status", "migrate", "housekeep"):
        InProcess().check(*command.split())


class WithoutTLS:
    """A server that refuses to encrypt, and keeps what it is sent after that."""

    def __init__(self) -> None:
        self.asked = 0
        self.received = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            with peer:
                peer.settimeout(30)
                request = peer.recv(8)
                if request == b"end":
                    return
                assert request == b"\x00\x00\x00\x08\x04\xd2\x16\x2f"  # SSLRequest
                self.asked += 1
                peer.sendall(b"N")
                while more := peer.recv(1000):
                    self.received += more

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as peer:
            peer.sendall(b"end")
        self._thread.join()
        self._socket.close()


@pytest.fixture
def without_tls() -> Iterator[WithoutTLS]:
    made = WithoutTLS()
    yield made
    made.close()


def test_no_connection_is_made_without_the_encryption_that_was_asked_for(
    without_tls: WithoutTLS, unnamed: pytest.MonkeyPatch
) -> None:
    whole = f"postgresql://u:p@127.0.0.1:{without_tls.port}/d?sslmode=require&gssencmode=disable"
    with TaskQ(whole, listen_dsn=whole) as tq:
        tq.task(name="t", queue="q")(without_tls.close)
        attempts: list[Callable[[], object]] = [
            lambda: tq.get(1),
            lambda: tq.database.connect("taskq-x"),
            lambda: tq.database.connect_direct("taskq-x"),
            lambda: tq.database.listen("taskq-x"),
            lambda: tq.database.pool("taskq-x", 1).session(tq.database.deadline()).__enter__(),
        ]
        for attempt in attempts:
            with pytest.raises(DatabaseUnavailable, match="SSL"):
                attempt()
        assert WorkerThread(tq).join() == 69
    for command in ("status", "migrate", "housekeep", "jobs list", "enqueue t"):
        done = InProcess().run(*command.split(), "--dsn", whole)
        assert done.code == 69
        assert "SSL" in done.err
    assert without_tls.asked >= len(attempts) + 6
    assert without_tls.received == b""
