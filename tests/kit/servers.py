"""The PostgreSQL server of a test run.

`TASKQ_TEST_DSN` names one whose user may create databases and roles. Otherwise `TASKQ_TEST_BACKEND` says which:

- `testcontainers`: an image by Docker (`TASKQ_TEST_IMAGE`, else `postgres:18`)
- `embedded`: the server of the extra `embedded`
- `postgres15` and the like: the programs of Debian's package, in /usr/lib/postgresql/15/bin

and without it, Docker where an engine answers, else the embedded server.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from taskq_sync.embedded import EmbeddedServer
from taskq_sync.embedded.lock import FileLock
from taskq_sync.embedded.postmaster import Postmaster, is_postgres

_DSN = "TASKQ_TEST_DSN"
_BACKEND = "TASKQ_TEST_BACKEND"
_IMAGE = "TASKQ_TEST_IMAGE"
_FOLDER = "TASKQ_TEST_RUN_FOLDER"
_PREFIX = "taskq-tests-"

#: For tests only: nothing has to survive a crash, and every worker process of the run has sessions.
_SETTINGS = {"max_connections": "300", "shared_buffers": "64MB"}


class Run:
    """One run of the tests: its folder, shared by all processes of the run, and its server.

    The process that was started by hand opens it and closes it. The processes of pytest-xdist inherit it by
    environment variables. A server in the folder is started by the first process that wants one.
    """

    def __init__(self) -> None:
        self.is_owner = _FOLDER not in os.environ
        self._alive: FileLock | None = None
        if self.is_owner:
            _clear_up_after_killed_runs()
            os.environ[_FOLDER] = tempfile.mkdtemp(prefix=_PREFIX)
        self.folder = Path(os.environ[_FOLDER])
        if self.is_owner:
            self._alive = FileLock.exclusive(self.folder / "run.lock")
        self._stop: Callable[[], None] | None = None
        if self.is_owner and _DSN not in os.environ:
            self._choose_backend()

    @property
    def database_prefix(self) -> str:
        """What the names of this run's databases begin with, and those of no other run on the server."""
        letters = re.sub(r"[^a-z0-9]", "", self.folder.name.removeprefix(_PREFIX).lower())
        return f"taskq_{letters}{self.folder.stat().st_ino}_"

    def dsn(self) -> str:
        """Start the server, unless it runs, and return the DSN of its database for administration."""
        if _DSN in os.environ:
            return os.environ[_DSN]
        server = self._local_server()
        server.start()
        self._stop = server.stop
        return server.dsn

    def close(self) -> None:
        """Let the server go; the owner of the run stops it, whatever became of the others, and removes the folder."""
        if self.is_owner and _DSN in os.environ:
            _drop_databases(os.environ[_DSN], self.database_prefix)
        if self._stop is not None:
            self._stop()
        if self.is_owner:
            if (self.folder / "server" / "data").exists():
                # A worker process that was killed may have left it running: the last user to stop ends it.
                with self._local_server():
                    pass
            shutil.rmtree(self.folder)
            del os.environ[_FOLDER]
        if self._alive is not None:
            self._alive.release()

    def _local_server(self) -> EmbeddedServer:
        debian = re.fullmatch(r"postgres(\d+)", os.environ[_BACKEND])
        programs = f"/usr/lib/postgresql/{debian[1]}/bin" if debian else None
        if os.geteuid() == 0:
            self.folder.chmod(0o711)
        return EmbeddedServer(self.folder / "server", durable=False, settings=_SETTINGS, programs=programs)

    def _choose_backend(self) -> None:
        backend = os.environ.get(_BACKEND) or ("testcontainers" if _docker_answers() else "embedded")
        os.environ[_BACKEND] = backend
        if backend == "testcontainers":
            self._start_container()
        elif backend != "embedded" and not re.fullmatch(r"postgres\d+", backend):
            raise ValueError(
                f"{_BACKEND}={backend} is none of testcontainers, embedded, postgres15 and the like"
            )

    def _start_container(self) -> None:
        from testcontainers.postgres import PostgresContainer

        container = PostgresContainer(os.environ.get(_IMAGE, "postgres:18"), driver=None)
        container.with_command("postgres -c fsync=off -c max_connections=300")
        container.start()
        self._stop = container.stop
        # For the processes of the run only; it ends with this process.
        os.environ[_DSN] = container.get_connection_url()


def _clear_up_after_killed_runs() -> None:
    """End the servers of runs whose owner is gone, which only a SIGKILL brings about, and remove their folders."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = folder / "run.lock"
        # A young one may be about to be locked by its owner.
        if not lock.exists() or lock.stat().st_uid != os.geteuid() or time.time() - lock.stat().st_mtime < 60:
            continue
        dead = FileLock.exclusive(lock)
        if dead is None:
            continue
        postmaster = Postmaster.read(folder / "server" / "data")
        if postmaster is not None and is_postgres(postmaster.pid):
            os.kill(postmaster.pid, signal.SIGINT)
        gone = FileLock.wait_for(folder / "server" / "server.lock", 10) if postmaster is not None else dead
        if gone is not None:
            shutil.rmtree(folder)
        dead.release()


def _drop_databases(dsn: str, prefix: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        found = conn.execute("select datname from pg_database where starts_with(datname, %s)", (prefix,))
        for (name,) in found.fetchall():
            conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _docker_answers() -> bool:
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return False
    import docker

    with warnings.catch_warnings():
        # The client leaves a socket open, in a cycle, when nobody answers.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with contextlib.closing(docker.from_env(timeout=2)) as client:
                return bool(client.ping())
        except docker.errors.DockerException:
            return False
        finally:
            gc.collect()
