"""From the runs of a benchmark to its figures: medians, quartiles, one JSON object and one line of the table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from attrs import asdict, frozen
from rich.table import Table

from benchmarks.benchmark import Measure


@frozen(kw_only=True)
class Machine:
    """Where the figures come from. A figure without it means nothing."""

    server: str
    python: str
    cpus: int


@frozen(kw_only=True)
class Figure:
    """What came out for one measure.

    *value* and *floor* are medians of the runs; *ratio*, *q25* and *q75* are the median and the quartiles of the
    ratios of the *n* pairs, each of which ran back to back.
    """

    measure: str
    value: float
    unit: str
    floor: float
    ratio: float
    q25: float
    q75: float
    n: int

    @classmethod
    def of(cls, measure: Measure, pairs: Sequence[tuple[float, float]]) -> Figure:
        """Make the figure from *pairs* of (product, floor), at least one."""
        ratios = [measure.ratio(value, floor) for value, floor in pairs]
        q25, median, q75 = _quartiles(ratios)
        return cls(
            measure=measure.name,
            value=statistics.median(value for value, _ in pairs),
            unit=measure.unit,
            floor=statistics.median(floor for _, floor in pairs),
            ratio=median,
            q25=q25,
            q75=q75,
            n=len(pairs),
        )

    def to_json(self, machine: Machine) -> str:
        """Return the figure as one JSON object in one line."""
        rounded = {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }
        return json.dumps({**rounded, **asdict(machine)})


@frozen(kw_only=True)
class Reading:
    """One figure and its limit: the median and the 95th percentile of *n* samples, or one number.

    *met*: whether *value*, the 95th percentile where there are samples, is within *limit*.
    """

    measure: str
    value: float
    unit: str
    limit: float
    met: bool
    median: float
    worst: float
    n: int

    @classmethod
    def of(cls, measure: str, unit: str, samples: list[float], limit: float) -> Reading:
        """Make the reading from *samples*, at least one."""
        value = sorted(samples)[max(0, -(-len(samples) * 95 // 100) - 1)]
        return cls(
            measure=measure,
            value=value,
            unit=unit,
            limit=limit,
            met=value <= limit,
            median=statistics.median(samples),
            worst=max(samples),
            n=len(samples),
        )

    def to_json(self, where: Machine) -> str:
        """Return the reading as one JSON object in one line."""
        rounded = {
            name: round(value, 4) if type(value) is float else value for name, value in asdict(self).items()
        }
        return json.dumps({**rounded, **asdict(where)})

    def row(self) -> tuple[str, ...]:
        """Return the cells of its line in `readings_table`."""
        return (
            self.measure,
            f"{self.value:.3f}",
            f"{self.limit:.3f}",
            self.unit,
            "yes" if self.met else "no",
            f"{self.median:.3f}",
            f"{self.worst:.3f}",
            str(self.n),
        )


def readings_table(title: str) -> Table:
    """Return an empty table for readings."""
    table = Table(title=title, title_justify="left")
    table.add_column("measure", no_wrap=True)
    for column in ("value", "limit", "unit", "met", "median", "worst", "samples"):
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    q25, median, q75 = statistics.quantiles(values, n=4, method="inclusive")
    return q25, median, q75
