"""docs/sql-api.md against the files under sql/ and an installed schema."""

from __future__ import annotations

import re
from typing import Any

import psycopg

from kit.sql_api import sql_api

PAGE = sql_api.PAGE.read_text(encoding="utf-8")


def test_page_is_fresh() -> None:
    assert sql_api.fresh_page(PAGE) == PAGE, "run `python docs/sql_api.py`"


def test_names_every_function_of_the_contract_once() -> None:
    files = [each.stem for each in sql_api.FUNCTIONS.glob("*/*.sql") if each.parent.name != "internal"]
    headings = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)

    assert sorted(headings) == sorted(files)


def test_explains_every_error_code_that_sql_raises() -> None:
    raised = {
        code
        for path in sql_api.FUNCTIONS.glob("*/*.sql")
        for code in re.findall(r"errcode = '(TQ\d+)'", path.read_text(encoding="utf-8"))
    }

    assert raised == set(re.findall(r"^\| `(TQ\d+)`", PAGE, re.MULTILINE))


def test_shows_the_columns_of_the_job_view(conn: psycopg.Connection[Any]) -> None:
    shown: list[tuple[str, str]] = []
    section = PAGE.partition("## The row of a job")[2].partition("\n## ")[0]
    for names, types in re.findall(r"^\| (`.+?`) \| ([a-z, ]+) \|", section, re.MULTILINE):
        columns, kinds = re.findall(r"`(\w+)`", names), types.split(", ")
        shown += zip(columns, kinds * len(columns) if len(kinds) == 1 else kinds, strict=True)
    real = conn.execute("""
        select attname, format_type(atttypid, atttypmod) from pg_attribute
        where attrelid = 'taskq.job_view'::regclass and attnum > 0
        """).fetchall()

    assert sorted(shown) == sorted(
        (name, kind.replace("timestamp with time zone", "timestamptz")) for name, kind in real
    )
