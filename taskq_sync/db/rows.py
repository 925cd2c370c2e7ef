"""From rows to values, and from durations to parameters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import starmap
from typing import TypeVar

from taskq_sync.clock import interval_text
from taskq_sync.db.connections import Row

_T = TypeVar("_T")


def read(kind: type[_T], rows: Iterable[Row]) -> list[_T]:
    """Return each row as a *kind*, a class whose fields are the columns of the statement, in order."""
    # By position: by name it takes three times as long, and a claim and a settle of every job come by here.
    return list(starmap(kind, rows))


def read_one(kind: type[_T], rows: Iterable[Row]) -> _T:
    """Return the only row as a *kind*."""
    [value] = read(kind, rows)
    return value


def interval(value: timedelta | None) -> str | None:
    """Return *value* as the text of an interval parameter."""
    return None if value is None else interval_text(value)
