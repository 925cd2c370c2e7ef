"""What the worker that is never killed holds of the system, and how many sessions there are: early and late in a run.

A figure of the worker is the median of the samples of a window: connections, and child processes for suspects, come
and go. That of the sessions is their mean: a worker that was just killed has none, and a median would jump by a whole
one. The up to four connections of a worker for `ctx.transaction()` are not counted: each is made when so many handlers
are first in one at the same time, which chance decides anew after each restart. Reads /proc, so it needs Linux.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from pathlib import Path

import psycopg
from attrs import asdict, fields, frozen

_MIB = 1024 * 1024

#: The clients' sessions in this database, but for the one that asks: those that are not for `ctx.transaction()`, and
#: those of one worker that are.
_SESSIONS = """
select count(*) filter (where application_name not like '%%-transaction'),
  count(*) filter (where application_name like %(transactions)s)
from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


@frozen(kw_only=True)
class Usage:
    """Mebibytes in memory, threads and open descriptors of one process; sessions of all clients."""

    memory: float
    threads: float
    descriptors: float
    sessions: float


@frozen(kw_only=True)
class Growth:
    """A figure early and late in the run, and by how many percent it has grown."""

    start: float
    end: float
    percent: float

    @classmethod
    def of(cls, start: float, end: float) -> Growth:
        """Compare two figures."""
        return cls(start=round(start, 1), end=round(end, 1), percent=round((end - start) / start * 100, 2))


class Gauge:
    """Takes samples, each at a time in seconds since the start of the run."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._samples: list[tuple[float, Usage]] = []

    def sample(self, at: float, pid: int) -> None:
        """Look once; no sample while the server or the process is away."""
        with contextlib.suppress(psycopg.OperationalError, OSError):
            self._samples.append((at, self._look(pid)))

    def growth(self, early: tuple[float, float], late: tuple[float, float]) -> dict[str, Growth]:
        """Return the growth of each figure between two windows of time."""
        before, after = self._level(early), self._level(late)
        return {name: Growth.of(start, after[name]) for name, start in before.items()}

    def _look(self, pid: int) -> Usage:
        process = Path("/proc", str(pid))
        resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        descriptors = len(list((process / "fd").iterdir()))
        with psycopg.connect(self._dsn, connect_timeout=5) as conn:
            row = conn.execute(_SESSIONS, {"transactions": f"%-{pid}-%-transaction"}).fetchone()
        assert row is not None
        sessions, transactions = row
        return Usage(
            memory=resident / _MIB,
            threads=len(list((process / "task").iterdir())),
            descriptors=descriptors - transactions,
            sessions=sessions,
        )

    def _level(self, window: tuple[float, float]) -> dict[str, float]:
        low, high = window
        found = [asdict(usage) for at, usage in self._samples if low <= at <= high]
        if not found:  # the server was away all the time: the sample that is nearest
            _, nearest = min(self._samples, key=lambda sample: abs(sample[0] - (low + high) / 2))
            found = [asdict(nearest)]
        level = {
            each.name: statistics.median(sample[each.name] for sample in found) for each in fields(Usage)
        }
        return {**level, "sessions": statistics.fmean(sample["sessions"] for sample in found)}
