"""Migrations while workers run: many at once, from an older version, and one that is killed half-way."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from faults.lab import Lab
from kit.command import PATIENCE, CommandLine
from kit.waiting import wait_until_blocked
from taskq_sync.db.schema import Schema

#: Which transaction wrote which routine and relation: equal lists mean that nothing was written in between.
_WRITTEN = """
select 'routine', oid::regprocedure::text, xmin::text from pg_proc where pronamespace = 'taskq'::regnamespace
union all
select 'relation', relname, xmin::text from pg_class where relnamespace = 'taskq'::regnamespace
union all
select 'settings', version, xmin::text from taskq.settings
order by 1, 2
"""


def written(lab: Lab) -> list[tuple[Any, ...]]:
    return lab.sql.conn.execute(_WRITTEN).fetchall()


def make_old(lab: Lab) -> None:
    """Let the schema seem to be that of another release, whose every function is to be replaced."""
    lab.sql.run("update taskq.settings set version = '0.0.1', fingerprint = 'of an older release'")


@contextmanager
def migrating(lab: Lab, number: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start so many processes that migrate."""
    taskq = CommandLine(lab.folder, lab.dsn)
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(taskq.start("migrate")) for _ in range(number)]


def ended(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Wait for the processes; return how each has ended and what it said, in any order."""
    said = [process.communicate(timeout=PATIENCE) for process in processes]
    return sorted(
        (process.returncode, out + err) for process, (out, err) in zip(processes, said, strict=True)
    )


def test_many_migrations_at_once_under_workers_and_one_that_is_killed_half_way(lab: Lab) -> None:
    # B73, B74
    number = lab.count(20, short=5)
    for _ in range(lab.count(4, short=2)):
        lab.worker()
    make_old(lab)
    jobs = lab.enqueue_many(lab.count(400, short=60), "nap", {"seconds": 0.05})
    with migrating(lab, 1) as [first], psycopg.connect(lab.dsn, application_name="faults-reader") as reader:
        reader.execute("select from taskq.job_view limit 0")  # the first view cannot be replaced meanwhile
        [pid] = wait_for_migration(lab)
        wait_until_blocked(lab.sql.conn, pid)
        first.send_signal(signal.SIGKILL)
        with migrating(lab, number) as others:
            reader.rollback()
            said = ended(others)

    up_to_date = f"schema taskq is up to date at {Schema().version}\n"
    assert [code for code, _ in said] == [0] * number, said
    assert [text for _, text in said].count(up_to_date) == number - 1, said
    lab.wait_until_ended(*jobs)
    assert lab.outcomes(*jobs) == [("succeeded", "success")] * len(jobs)
    assert Schema().state(lab.sql.conn).up_to_date
    assert lab.sql.value("select count(*) from taskq.settings") == 1

    before = written(lab)
    with migrating(lab, number) as again:
        assert ended(again) == [(0, up_to_date)] * number
    assert written(lab) == before


def wait_for_migration(lab: Lab) -> list[int]:
    """Return the session of the one migration, once it waits for a lock on a view."""
    found: list[int] = []

    def waits() -> bool:
        rows = lab.sql.rows(
            "select pid from pg_locks where not granted and locktype = 'relation' and mode = 'AccessExclusiveLock'"
        )
        found[:] = [row["pid"] for row in rows]
        return bool(found)

    lab.until(waits, "the migration waits for the reader of the view")
    return found
