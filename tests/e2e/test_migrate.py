"""`taskq-sync migrate` as processes against a real database."""

# Scenarios B73, B74, B75.

from __future__ import annotations

import contextlib
import re
import subprocess
import time

import psycopg
import pytest

from kit.command import CommandLine
from kit.waiting import eventually
from taskq_sync.db.schema import Schema
from taskq_sync.embedded.account import Account
from taskq_sync.embedded.programs import Programs
from taskq_sync.version import __version__


@pytest.fixture
def taskq(tmp_path, empty_dsn):
    return CommandLine(tmp_path, empty_dsn)


def test_installs_once_and_then_changes_nothing(taskq):
    assert taskq.check("migrate") == f"schema taskq is installed at {__version__}\n"
    assert taskq.check("migrate") == f"schema taskq is up to date at {__version__}\n"


def test_twenty_processes_at_once_all_end_well(taskq, empty_dsn):
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(taskq.start("migrate")) for _ in range(20)]
        said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 20, said
    assert sorted(said) == sorted(
        [(f"schema taskq is installed at {__version__}\n", "")]
        + [(f"schema taskq is up to date at {__version__}\n", "")] * 19
    )
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert conn.execute("select count(*) from taskq.settings").fetchone() == (1,)
        assert conn.execute("select * from taskq.check_integrity()").fetchall() == []


def test_check_tells_by_its_exit_code(taskq):
    before = taskq.run("migrate", "--check")
    assert (before.code, before.out) == (1, "")
    assert "schema taskq is not installed" in before.err
    assert "run `taskq-sync migrate`" in before.err
    taskq.check("migrate")
    assert taskq.check("migrate", "--check") == f"schema taskq is up to date at {__version__}\n"


def test_check_changes_nothing(taskq, empty_dsn):
    taskq.run("migrate", "--check")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert conn.execute("select to_regnamespace('taskq')").fetchone() == (None,)


def test_speaks_json(taskq):
    assert taskq.run("migrate", "--json").json == {
        "schema": "taskq",
        "changed": True,
        "before": None,
        "version": __version__,
    }
    state = taskq.run("migrate", "--check", "--json").json
    assert (state["installed"], state["up_to_date"]) == (__version__, True)


def test_check_in_json_also_tells_by_its_exit_code(taskq):
    done = taskq.run("migrate", "--check", "--json")
    assert done.code == 1
    assert '"up_to_date": false' in done.out


def test_sql_is_a_script_for_psql_and_connects_to_nothing(tmp_path, empty_dsn):
    script = CommandLine(tmp_path, "postgresql://127.0.0.1:1/nowhere").check(
        "migrate", "--sql", "--schema", "My-Queue"
    )
    psql = Programs.of_the_wheel(Account.for_server()).path("psql")
    command = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-", empty_dsn]
    done = subprocess.run(command, input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert Schema("My-Queue").state(conn).up_to_date


def test_check_and_sql_exclude_each_other(taskq):
    done = taskq.run("migrate", "--check", "--sql")
    assert done.code == 2
    assert "exclude each other" in done.err


#: What a dump of the schema has that differs between two dumps of the same.
_OF_ONE_DUMP = re.compile(r"^\\(un)?restrict .*\n", re.MULTILINE)


def schema_of(dsn: str) -> str:
    """The definitions of a database as `pg_dump` writes them."""
    program = Programs.of_the_wheel(Account.for_server()).path("pg_dump")
    dumped = subprocess.run(
        [program, "--schema-only", "--dbname", dsn], capture_output=True, text=True, check=True, timeout=60
    )
    return _OF_ONE_DUMP.sub("", dumped.stdout)


@pytest.mark.parametrize("installed", [False, True], ids=["empty", "older release"])
def test_killed_at_any_moment_it_leaves_all_or_nothing(taskq, databases, empty_dsn, installed):
    """B74: a migration is one transaction, so the next one finds what was there before, and no index half-made."""
    old = "update taskq.settings set version = '0.0.1', fingerprint = 'older'; drop view taskq.attempt_view"
    with psycopg.connect(empty_dsn, autocommit=True, application_name="watcher") as conn:
        if installed:
            Schema().migrate(conn)
            conn.execute(old)
        before, fresh = schema_of(empty_dsn), fresh_schema(databases)
        for seconds in (0.0, 0.03, 0.1):  # anywhere within: the moment does not matter
            with taskq.start("migrate", env={"PGAPPNAME": "victim"}) as process:
                wait_until_in_transaction(conn, "victim")
                time.sleep(seconds)
                process.kill()
                process.wait()
            eventually(lambda: not sessions(conn, "victim"), "the session of the killed process ends")
            assert schema_of(empty_dsn) in (before, fresh)
            if Schema().state(conn).up_to_date:  # it was faster
                break
        taskq.check("migrate")
        assert conn.execute("select count(*) from pg_index where not indisvalid").fetchone() == (0,)
    assert schema_of(empty_dsn) == fresh


def fresh_schema(databases) -> str:
    """The definitions of a fresh installation."""
    with databases.copy() as dsn:
        return schema_of(dsn)


def sessions(conn, application: str) -> list[str]:
    rows = conn.execute(
        "select coalesce(xact_start::text, '') from pg_stat_activity where application_name = %s",
        (application,),
    ).fetchall()
    return [started for (started,) in rows]


def wait_until_in_transaction(conn, application: str) -> None:
    eventually(lambda: any(sessions(conn, application)), "the migration has begun")
