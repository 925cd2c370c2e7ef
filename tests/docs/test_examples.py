"""Every example in the documentation runs, in the order of its page, and what it promises comes out.

Python and SQL run as they stand. Of the shell, the commands of `taskq-sync` run: a worker until nothing is due, without
a supervisor, and neither `dev` nor `demo`. The Python of the page is the module that their `--app` names.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from kit import pages
from kit.pages import Block
from taskq_sync import TaskQ
from taskq_sync.cli import main

_ENDLESS = ("dev", "demo")
_SUPERVISING = {"--processes", "--max-jobs-per-child", "--max-memory-per-child"}


@pytest.fixture(params=pages.pages(), ids=lambda each: each.relative_to(pages.ROOT).as_posix())
def page(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, dsn: str, page: Path) -> Iterator[ModuleType]:
    """The module that the Python blocks of the page make up; its clients reach the database of the test."""
    monkeypatch.setenv("TASKQ_DSN", dsn)
    made = ModuleType((re.findall(r"--app (\w+)", page.read_text(encoding="utf-8")) or ["example"])[0])
    monkeypatch.setitem(sys.modules, made.__name__, made)
    yield made
    for each in list(vars(made).values()):
        if isinstance(each, TaskQ):
            each.close()


@pytest.mark.own_database
def test_examples(page: Path, module: ModuleType, conn: psycopg.Connection[Any]) -> None:
    for block in pages.blocks(page, "python", "sql", "console"):
        where = f"{page}:{block.line}"
        if block.language == "sql":
            _run_sql(conn, block, where)
        elif block.language == "python":
            _run_python(module, block, where)
        else:
            _run_shell(block, where)


def _run_sql(conn: psycopg.Connection[Any], block: Block, where: str) -> None:
    for statement in pages.statements(block.code):
        lines = _outcome(conn, statement.sql)
        failed = lines and lines[0].startswith("ERROR")
        if statement.promised is not None or failed:
            said = f"{where}\n{statement.sql}\n" + "\n".join(lines)
            assert pages.matches(statement.promised or [], lines), said


def _outcome(conn: psycopg.Connection[Any], sql: str) -> list[str]:
    """Return the rows of *sql* as lines, or the error as one."""
    try:
        cursor = conn.execute(sql.encode())
    except psycopg.Error as error:
        return [f"ERROR {error.sqlstate}: {error.diag.message_primary}"]
    rows = cursor.fetchall() if cursor.description else []
    return [" | ".join(map(_shown, row)) for row in rows]


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool | dict | list):
        return json.dumps(value)
    return str(value)


def _run_python(module: ModuleType, block: Block, where: str) -> None:
    # The blank lines make a traceback show the line of the page.
    code = compile("\n" * (block.line - 1) + block.code, where.rpartition(":")[0], "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, vars(module))
    lines = printed.getvalue().splitlines()
    assert pages.matches(pages.promised_lines(block.code), lines), f"{where} printed\n" + "\n".join(lines)


def _without_supervisor(words: list[str]) -> list[str]:
    """Leave out the options that make further processes, which do not find the module of a page."""
    return [
        word for before, word in zip(["", *words], words, strict=False) if not {before, word} & _SUPERVISING
    ]


def _run_shell(block: Block, where: str) -> None:
    for command, promised in pages.commands(block.code):
        words = shlex.split(command.partition(" > ")[0])
        if words[0] != "taskq-sync" or words[1] in _ENDLESS:
            continue
        if words[1] == "worker" and not {"--burst", "--max-jobs"} & set(words):
            words.append("--burst")
        words = _without_supervisor(words)
        result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
        refused = promised and promised[0].startswith("taskq-sync: ")
        said = f"{where}: {command}\n{result.output}"
        assert result.exit_code == (1 if refused else 0), said
        printed = [line.rstrip() for line in (result.stderr if refused else result.stdout).splitlines()]
        assert not promised or pages.matches(promised, printed), said
