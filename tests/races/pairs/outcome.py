"""What two calls have led to, in a form that is the same whenever the same has happened.

Jobs and attempts are numbered in the order of their ids, and instants are minutes from now: nothing that the calls do
differs by less. Signals are left out, since one too many costs nothing; what one too few leads to is `stuck`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from attrs import frozen

from kit.contract import Contract, Row

_TABLES = (
    "jobs",
    "ready",
    "running",
    "finished",
    "attempts",
    "unique_keys",
    "queues",
    "concurrency_limits",
    "audit",
)

_STUCK = """
  select jsonb_agg(r.concurrency_key)
  from taskq.ready r
  where r.hold in ('key', 'order')
    and not exists (select from taskq.signals s where s.key = r.concurrency_key)
    and not exists (
      select from taskq.ready c
      where c.concurrency_key = r.concurrency_key and c.hold is null and c.queue = r.queue)
    and (select count(*) from taskq.running x where x.concurrency_key = r.concurrency_key)
      < (select k.max_running from taskq.key_limits(array[r.concurrency_key]) k)
"""
_STATE = """
select statement_timestamp() as now, jsonb_build_object({tables},
  'findings', (select jsonb_agg(to_jsonb(c)) from taskq.check_integrity() c),
  'stuck', ({stuck})) as tables
""".format(
    tables=", ".join(
        f"'{table}', (select coalesce(jsonb_agg(to_jsonb(t)), '[]') from taskq.{table} t)"
        for table in _TABLES
    ),
    stuck=_STUCK,
)


@frozen
class State:
    """All that is stored, as one statement has seen it at *now*."""

    tables: Row
    now: datetime

    @classmethod
    def of(cls, author: Contract) -> State:
        """Return what is committed; fails for a finding of `check_integrity()` and for a job that is stuck."""
        [row] = author.rows(_STATE)
        assert row["tables"].pop("findings") is None, row
        assert row["tables"].pop("stuck") is None, row
        return cls(**row)


def outcome(state: State, *answers: list[Row]) -> Row:
    """Return *state* and *answers* in their common form."""
    told = [*answers, state.tables]
    names = _Names(told, state.now)
    tables = {table: sorted(map(names.of, rows), key=repr) for table, rows in state.tables.items()}
    return {"answers": [names.of(answer) for answer in answers], **tables}


def differences(reached: Row, expected: Row, *, unlike: tuple[str, ...] = ()) -> Iterator[str]:
    """Say in what two outcomes differ, in their common form; the tables *unlike* may."""
    for part in expected:
        if part not in unlike and reached[part] != expected[part]:
            yield f"{part}: {reached[part]}, not {expected[part]}"


class _Names:
    def __init__(self, told: Iterable[Any], now: datetime) -> None:
        found = list(_ids(told))
        self._jobs = _ranked(number for name, number in found if name == "job")
        self._attempts = _ranked(number for name, number in found if name == "attempt")
        self._now = now

    def of(self, value: Any, name: str = "") -> Any:
        """Return *value*, which stands in a column *name*, without what is chance."""
        if isinstance(value, dict):
            return {
                key: self.of(each, key) for key, each in sorted(value.items()) if not _is_chance(value, key)
            }
        if isinstance(value, list):
            return [self.of(each) for each in value]
        if value is None:
            return None
        if name in ("id", "job_id"):
            return f"job {self._jobs[value]}"
        if name == "attempt_id":
            return f"attempt {self._attempts[value]}"
        if name == "target":
            return re.sub(r"(?<=job )\d+", lambda found: str(self._jobs.get(int(found[0]), "?")), value)
        if name == "at" or name.endswith("_at"):
            instant = datetime.fromisoformat(value) if isinstance(value, str) else value
            return f"{round((instant - self._now) / timedelta(minutes=1))} min"
        return str(value) if isinstance(value, timedelta) else value


def _is_chance(row: Row, column: str) -> bool:
    return column == "id" and "actor" in row  # of the audit


def _ids(told: Any) -> Iterator[tuple[str, int]]:
    if isinstance(told, dict):
        for name, value in told.items():
            if name in ("id", "job_id") and value is not None and not _is_chance(told, name):
                yield "job", value
            elif name == "attempt_id" and value is not None:
                yield "attempt", value
            else:
                yield from _ids(value)
    elif isinstance(told, list):
        for each in told:
            yield from _ids(each)


def _ranked(numbers: Iterable[int]) -> dict[int, int]:
    return {number: place for place, number in enumerate(sorted(set(numbers)), 1)}
