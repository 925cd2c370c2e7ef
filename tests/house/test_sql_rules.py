"""Rules that every file of sql/ keeps, and what they come to in a database."""

# Scenarios B51, B76.

from __future__ import annotations

import re
from pathlib import Path

import pytest

#: Whatever tells the time but for `taskq.clock()`.
_CLOCKS = re.compile(
    r"\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\(|"
    r"\b(current_timestamp|current_date|current_time|localtime|localtimestamp)\b|"
    r"'(now|today|tomorrow|yesterday)'"
)


def code_of(path: Path) -> str:
    """The text of a file without its comments."""
    return re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8"))


def test_clock_is_the_only_clock(sql_root):
    found = {
        path.relative_to(sql_root).as_posix()
        for path in sql_root.rglob("*.sql")
        if _CLOCKS.search(code_of(path).lower())
    }
    assert found == {"functions/internal/clock.sql"}


def test_the_token_of_the_schema_is_written_so_that_the_rule_finds_it(sql_root):
    """`taskq.` or `schema taskq`; any other spelling would stay behind in a schema of another name."""
    for path in sql_root.rglob("*.sql"):
        code = code_of(path).replace("taskq_sync", "")
        rest = re.sub(r"\btaskq\.|\bschema (if not exists )?taskq\b", "", code)
        assert "taskq" not in rest, path


def test_files_are_lower_case_without_tabs(sql_root):
    for path in sql_root.rglob("*.sql"):
        text = path.read_text(encoding="utf-8")
        assert "\t" not in text, path
        assert text.endswith("\n"), path
        assert not text.endswith("\n\n"), path


def test_no_branch_on_the_version_of_the_server(sql_root):
    for path in sql_root.rglob("*.sql"):
        assert "server_version" not in code_of(path), path


def test_who_forbids_a_kind_of_plan_forbids_to_compile_it(sql_root):
    """Before PostgreSQL 18 a forbidden scan that nothing replaces costs so much that a server with JIT compiles it."""
    for path in (sql_root / "functions").rglob("*.sql"):
        code = code_of(path)
        assert ("\nset enable_" in code) == ("\nset jit = off" in code), path


def test_texts_mean_the_same_in_every_session(sql_root):
    """A backslash depends on standard_conforming_strings, and what `\\d` matches on the locale."""
    for path in sql_root.rglob("*.sql"):
        plain = re.sub(r"\bE'[^']*'", "", code_of(path))
        assert "\\" not in plain, path


@pytest.fixture
def routines(conn):
    """Every routine of the schema: name, whether it is a definer's, its settings, whether PUBLIC may call it."""
    return conn.execute(
        """
        select p.proname, p.prosecdef, coalesce(p.proconfig, '{}'),
               has_function_privilege('public', p.oid, 'execute')
        from pg_proc p where p.pronamespace = 'taskq'::regnamespace
        """
    ).fetchall()


def test_every_name_has_one_routine(routines):
    names = [name for name, *_ in routines]
    assert sorted(names) == sorted(set(names))


def test_every_routine_has_a_file(routines, sql_root):
    files = {path.stem for path in (sql_root / "functions").rglob("*.sql")}
    assert {name for name, *_ in routines} == files


def test_the_public_may_call_nothing(routines):
    assert [name for name, _, _, public in routines if public] == []


def test_the_contract_runs_as_its_owner_on_a_path_of_its_own(routines, sql_root):
    """Else a caller could put a table or an operator of his own in its way."""
    internal = {path.stem for path in (sql_root / "functions" / "internal").glob("*.sql")}
    path = "search_path=pg_catalog, pg_temp"
    assert [
        name
        for name, definer, settings, _ in routines
        if name not in internal and not (definer and path in settings)
    ] == []


def test_internal_functions_run_as_their_caller(routines, sql_root):
    internal = {path.stem for path in (sql_root / "functions" / "internal").glob("*.sql")}
    assert [name for name, definer, _, _ in routines if name in internal and definer] == []
