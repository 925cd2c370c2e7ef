"""The shipped SQL files and their order."""

from __future__ import annotations

import pytest

from taskq_sync.db.sqlfiles import SqlFiles, read_files, shipped_files
from taskq_sync.errors import ConfigError


@pytest.fixture
def folder(tmp_path):
    """A small tree laid out as sql/, written in an order that is not the one of application."""
    for path, text in {
        "grants.sql": "revoke all on schema taskq from public;",
        "functions/worker/claim.sql": "claim",
        "functions/internal/zoom.sql": "zoom",
        "functions/producer/enqueue.sql": "enqueue",
        "tables/queues.sql": "queues",
        "tables/jobs.sql": "jobs",
        "types/one.sql": "one",
        "views/seen.sql": "seen",
        "schema.sql": "create schema taskq;",
        "README.md": "not SQL",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def paths(files: SqlFiles) -> list[str]:
    migrations = [each.file for each in files.migrations]
    every = [files.schema, *files.structure, *migrations, *files.views, *files.functions, files.grants]
    return [file.path for file in every]


def test_applies_what_others_need_first_and_by_name_inside_a_folder(folder):
    assert paths(read_files(folder)) == [
        "schema.sql",
        "types/one.sql",
        "tables/jobs.sql",
        "tables/queues.sql",
        "views/seen.sql",
        "functions/internal/zoom.sql",
        "functions/producer/enqueue.sql",
        "functions/worker/claim.sql",
        "grants.sql",
    ]


def test_every_shipped_sql_file_is_applied(sql_root):
    assert sorted(paths(shipped_files())) == sorted(
        path.relative_to(sql_root).as_posix() for path in sql_root.rglob("*.sql")
    )


def test_rewrites_every_file_for_another_schema(folder):
    files = read_files(folder).for_schema("My-Queue")
    assert files.schema.text == 'create schema "My-Queue";'
    assert files.grants.text == 'revoke all on schema "My-Queue" from public;'


def test_refuses_a_name_that_cannot_be_a_schema(folder):
    with pytest.raises(ConfigError, match="'pg_x' cannot be the name of the schema"):
        read_files(folder).for_schema("pg_x")


def test_a_file_is_named_after_what_it_defines(folder):
    assert read_files(folder).functions[-1].name == "claim"


def test_the_fingerprint_is_of_all_names_and_texts(folder):
    before = read_files(folder).fingerprint
    assert read_files(folder).fingerprint == before
    claim = folder / "functions/worker/claim.sql"
    claim.write_text("claim better")
    changed = read_files(folder).fingerprint
    claim.write_text("claim")
    claim.rename(claim.with_name("claims.sql"))
    renamed = read_files(folder).fingerprint
    assert len({before, changed, renamed}) == 3


def test_numbers_the_migrations(folder):
    assert read_files(folder).latest_migration == 0
    (folder / "migrations").mkdir()
    for name in ("0002_more.sql", "0001_column.sql"):
        (folder / "migrations" / name).write_text(name)
    files = read_files(folder)
    assert [(each.number, each.file.text) for each in files.migrations] == [
        (1, "0001_column.sql"),
        (2, "0002_more.sql"),
    ]
    assert files.latest_migration == 2


@pytest.mark.parametrize("name", ["0002_gap.sql", "1_short.sql", "0001.sql", "0001_Upper.sql"])
def test_refuses_migrations_that_are_not_numbered_one_after_the_other(folder, name):
    (folder / "migrations").mkdir()
    (folder / "migrations" / name).write_text("")
    with pytest.raises(ValueError, match=r"should be named 0001_<what>\.sql"):
        read_files(folder)
