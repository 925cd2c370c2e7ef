"""What commands print: JSON for programs, tables for people."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import attrs
import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def show_what_lacks_a_character() -> None:
    """Let standard output show as an escape what its encoding has no character for, as standard error does.

    Names and errors hold any character, and cron and containers often have an encoding of 128 of them.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_json(value: object) -> None:
    """Print *value* as one JSON document, plain ASCII, on standard output."""
    click.echo("".join(_written(plain(value), "\n")))


class Stored(str):
    """JSON as the database holds it. It is never parsed: there are numbers and depths that Python does not read."""


def plain(value: object) -> object:
    """Return *value* in terms of JSON: instants as ISO 8601, spans as seconds, values of the library as objects."""
    if isinstance(value, Stored):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    kind: type = type(value)
    if attrs.has(kind):
        return dict(_members(value, [each.name for each in attrs.fields(kind)]))
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value


def _members(value: object, names: Iterable[str]) -> Iterator[tuple[str, object]]:
    for name in names:
        text = getattr(value, name)
        if name.endswith("_json"):  # a JSON column, as text; the property of the same name parses it
            name = name.removesuffix("_json")
            yield name, getattr(value, name) if text is None else Stored(text)
        else:
            yield name, plain(text)


def _written(value: object, line: str) -> Iterator[str]:
    """Write JSON with indents, what is `Stored` in one line; *line* begins a line of its own."""
    if isinstance(value, Stored):
        yield re.sub(r"[^ -~]", lambda found: json.dumps(found[0])[1:-1], value)
    elif isinstance(value, (dict, list)) and value:
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        separator = opening
        for item in value:
            yield f"{separator}{line}  "
            if isinstance(value, dict):
                yield f"{json.dumps(item)}: "
                item = value[item]
            yield from _written(item, f"{line}  ")
            separator = ","
        yield line + closing
    else:
        yield json.dumps(value, allow_nan=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table without lines; columns that start with `#` are numbers. *empty* stands for no rows."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.removeprefix("#"), justify="right" if column.startswith("#") else "left", no_wrap=True
        )
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    if table.row_count:
        console().print(table)
    else:
        click.echo(empty)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values under each other; what is None is left out."""
    known = [(name, shown(value)) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{name.ljust(width)}  {value}")


def console() -> Console:
    """Return a console for standard output; a pipe is as wide as it needs to be."""
    made = Console(highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        made.width = 1000
    return made


def shown(value: object) -> str:
    """Return *value* for people, on one line and without anything that a terminal would obey."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, timedelta):
        return span(value)
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in str(value))


def span(value: timedelta) -> str:
    """Return a span in its two largest units: `2d 3h`, `4m 5s`, `0.250s`."""
    seconds = value.total_seconds()
    if abs(seconds) < 10:
        return f"{seconds:.3f}s"
    sign, rest = ("-", -round(seconds)) if seconds < 0 else ("", round(seconds))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        parts.append((number, unit))
    while parts[0][0] == 0:
        parts.pop(0)
    return sign + " ".join(f"{number}{unit}" for number, unit in parts[:2] if number)


def at_most(count: int) -> str:
    """Return a count of `queue_stats`, which stops at 10,001."""
    return "10000+" if count > 10_000 else str(count)
