"""A script for psql: what the sessions of a run sent, statement by statement, with what each was answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import define, field

#: Arguments that are sent as jsonb, whatever their value is.
_DOCUMENTS = {"payload", "headers", "result", "progress", "info", "jobs", "settlements"}

_HEAD = """\
-- For psql, in a database in which `taskq-sync migrate` has just made the schema. All sessions are this one."""


def call(function: str, arguments: Mapping[str, Any]) -> str:
    """Write the call of a function of the contract; the arguments are without their `p_`."""
    named = (
        f"p_{name} => {_document(value) if name in _DOCUMENTS and value is not None else literal(value)}"
        for name, value in arguments.items()
    )
    return f"select * from taskq.{function}({', '.join(named)})"


def literal(value: Any) -> str:
    """Write a value: text, a number, a truth value, null, an instant, a duration, or a list of names or numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, datetime):
        return f"timestamptz '{value.isoformat()}'"
    if isinstance(value, timedelta):
        return f"interval '{_duration(value)}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if not value:
        return "'{}'"
    kind = "bigint" if isinstance(value[0], int) else "text"
    return f"array[{', '.join(map(literal, value))}]::{kind}[]"


def _document(value: Any) -> str:
    return literal(json.dumps(value, default=_in_document))


def _in_document(value: Any) -> str | float:
    if isinstance(value, datetime):
        return value.isoformat()
    assert isinstance(value, timedelta)
    return _duration(value) if value % timedelta(days=1) == timedelta(0) else value.total_seconds()


def _duration(value: timedelta) -> str:
    # whole days as days: they are 24 hours each, whatever the time zone of the session says
    return (
        f"{value.days} days"
        if value and value % timedelta(days=1) == timedelta(0)
        else f"{value.total_seconds()} s"
    )


@define
class Script:
    """Statements in the order in which they were sent."""

    lines: list[str] = field(factory=list)
    statements: int = 0
    _session: str | None = None

    def add(self, statement: str, *, session: str, settings: Sequence[str] = ()) -> None:
        """Write *statement*, and before it the settings of the session if another one comes to speak."""
        if session != self._session:
            self.lines += ["", f"-- {session}", *(f"set {setting};" for setting in settings)]
            self._session = session
        self.lines.append(f"{statement};")
        self.statements += 1

    def answered(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of an answer below the statement."""
        self.lines += (f"--> {' | '.join(map(str, row.values()))}" for row in rows)

    def refused(self, sqlstate: str) -> None:
        """Write the error that was the answer."""
        self.lines.append(f"--> {sqlstate}")

    def __str__(self) -> str:
        return "\n".join([_HEAD, *self.lines])
