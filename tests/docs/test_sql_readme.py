"""The ways to install that sql/README.md shows."""

from __future__ import annotations

import subprocess

import psycopg

from kit import pages
from taskq_sync.db.schema import Schema
from taskq_sync.version import __version__

SQL = pages.ROOT / "sql"


def _concatenated() -> bytes:
    """Run the part of the example that comes before psql: what psql would be given."""
    blocks = pages.blocks(SQL / "README.md", "console")
    example = next(
        line for each in blocks for line, _ in pages.commands(each.code) if line.startswith("cat ")
    )
    return subprocess.run(
        ["sh", "-ec", example.rpartition("|")[0]], cwd=SQL, check=True, capture_output=True
    ).stdout


def test_psql_alone_installs_all_files(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as conn:
        conn.execute(_concatenated())
        made = conn.execute(
            "select proname from pg_proc where pronamespace = 'taskq'::regnamespace"
        ).fetchall()

    assert sorted(name for (name,) in made) == sorted(each.stem for each in SQL.glob("functions/*/*.sql"))


def test_migrate_takes_over_what_psql_installed(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(_concatenated())

        assert Schema().migrate(conn).changed
        assert Schema().check_client(conn).version == __version__


def test_tells_of_every_table() -> None:
    text = (SQL / "README.md").read_text(encoding="utf-8")
    tables = [each.stem for each in (SQL / "tables").glob("*.sql")]

    assert [each for each in tables if f"`{each}`" not in text] == []
