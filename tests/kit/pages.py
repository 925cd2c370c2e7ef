"""The pages of the documentation and the code in them.

A block of code begins with three backticks and its language. Lines in it that begin with `-->` in SQL, or `#>` in
Python, tell what comes out: the rows of the statement above, or what has been printed. In a block of the shell these
are the lines without a `$`. `...` stands for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@frozen
class Block:
    """One block of code: its *language*, its *code* and the *line* of its page that the code begins on."""

    language: str
    code: str
    line: int


@frozen
class Statement:
    """One SQL statement and the lines that are promised to come out; None where nothing is promised."""

    sql: str
    promised: list[str] | None


def pages() -> list[Path]:
    """Return the pages that people read."""
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "sql" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    return sorted(each for each in found if each.exists())


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of *page* in these languages, in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)
        for found in _BLOCK.finditer(text)
        if found[1] in languages
    ]


def statements(code: str) -> Iterator[Statement]:
    """Return the statements of a block of SQL; each ends with a semicolon at the end of a line."""
    sql: list[str] = []
    promised: list[str] | None = None
    for line in code.splitlines():
        if line.startswith("-->"):
            promised = [*(promised or []), line.removeprefix("-->").strip()]
            continue
        if sql and sql[-1].endswith(";"):
            yield Statement("\n".join(sql), promised)
            sql, promised = [], None
        if line and not line.startswith("--"):
            sql.append(line)
    if sql:
        yield Statement("\n".join(sql), promised)


def commands(code: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a block of the shell, each with the lines that it promises to print.

    A command stands behind a `$`, and goes on after a backslash.
    """
    found: list[tuple[str, list[str]]] = []
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def promised_lines(code: str) -> list[str]:
    """Return what a block of Python promises to print."""
    return [line.removeprefix("#>").strip() for line in code.splitlines() if line.startswith("#>")]


def matches(promised: list[str], actual: list[str]) -> bool:
    """Say whether *actual* is as *promised*, where `...` stands for anything within a line."""
    if len(promised) != len(actual):
        return False
    patterns = (".*".join(map(re.escape, each.split("..."))) for each in promised)
    return all(re.fullmatch(pattern, line) for pattern, line in zip(patterns, actual, strict=True))
