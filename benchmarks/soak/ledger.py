"""What handlers leave behind when they start: a line with the job and its fence, in a file that all of them share.

A file and no table while jobs run: the kernel keeps what a killed process has written, and no restart of the server is
in its way. At the end the lines go into a table, so that the checker can compare them with the history of the jobs.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

#: Where the workers find the file.
VARIABLE = "SOAK_LEDGER"

TABLE = "create table soak.started (job_id bigint not null, fence bigint not null)"


def write(job_id: int, fence: int) -> None:
    """Write that the handler of this attempt starts. Safe in threads: one short write to the end is never torn."""
    os.write(_file(), b"%d\t%d\n" % (job_id, fence))


@cache  # two threads may both open it at first, which does no harm
def _file() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def load(conn: psycopg.Connection[Any], path: Path) -> None:
    """Make the table and fill it from the file."""
    conn.execute(TABLE)
    with conn.cursor().copy("copy soak.started (job_id, fence) from stdin") as copy:
        copy.write(path.read_bytes() if path.exists() else b"")
