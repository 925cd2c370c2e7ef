"""PgBouncer in transaction mode, before the server of the scenarios."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import conninfo

from kit.waiting import eventually
from taskq_sync.embedded.account import Account

_CONFIG = """
[databases]
* = host={host}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
admin_users = postgres
logfile =
"""


def installed() -> str | None:
    """Return the path of PgBouncer, None if it is not there."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class Pooler:
    """PgBouncer before the server of *dsn*, with *size* sessions there. `dsn` leads through it."""

    def __init__(self, dsn: str, folder: Path, *, size: int = 3) -> None:
        program = installed()
        assert program is not None
        given = conninfo.conninfo_to_dict(dsn)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        account = Account.for_server()
        folder.mkdir()
        config = folder / "pgbouncer.ini"
        # everything is reached as the superuser that the database of the scenario belongs to
        config.write_text(_CONFIG.format(host=f"{given['host']} user=postgres", port=port, size=size))
        self.log = folder / "pgbouncer.log"
        with self.log.open("ab") as log, config.open() as stdin:
            self._process = subprocess.Popen(
                [program, "/dev/stdin"],  # its account need not reach the folder
                cwd="/",
                stdin=stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **account.spawn(),
            )
        self.dsn = conninfo.make_conninfo(
            "", host="127.0.0.1", port=port, dbname=given["dbname"], user="postgres"
        )
        eventually(self._answers, "the pooler answers")

    def __enter__(self) -> Pooler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        try:
            with psycopg.connect(self.dsn, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False
