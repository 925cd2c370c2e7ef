"""From rows to values, and from durations to parameters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TypeVar

import attrs

from taskq_sync.clock import interval_text
from taskq_sync.db.connections import Row

_T = TypeVar("_T")


def read(kind: type[_T], rows: Iterable[Row]) -> list[_T]:
    """Return each row as a *kind*, an attrs class whose fields are the columns of the statement, in order."""
    names = [each.name for each in attrs.fields(kind)]  # type: ignore[arg-type]  # all of model is attrs
    return [kind(**dict(zip(names, row, strict=True))) for row in rows]


def read_one(kind: type[_T], rows: Iterable[Row]) -> _T:
    """Return the only row as a *kind*."""
    [value] = read(kind, rows)
    return value


def interval(value: timedelta | None) -> str | None:
    """Return *value* as the text of an interval parameter."""
    return None if value is None else interval_text(value)
