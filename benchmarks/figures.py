"""From the runs of a benchmark to its figures: medians, quartiles, one JSON object and one line of the table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

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
    ratios of the *n* pairs, each of which ran back to back. Where there is no floor, it is null and so is the
    ratio; the quartiles are those of the values.

    *limit* is what must be reached, null = nothing: the least ratio or the greatest value, as *limit_of* says.
    *met*: whether it was. *runs* is 2 where the first *n* pairs did not meet it, and these are another *n*.
    """

    measure: str
    value: float
    unit: str
    floor: float | None
    ratio: float | None
    q25: float
    q75: float
    n: int
    limit: float | None = None
    limit_of: str | None = None
    met: bool | None = None
    runs: int = 1

    @classmethod
    def of(cls, measure: Measure, pairs: Sequence[tuple[float, float | None]]) -> Figure:
        """Make the figure from *pairs* of (product, floor), at least one; in all of them a floor, or in none."""
        values = _Spread.of([value for value, _ in pairs])
        floors = [floor for _, floor in pairs if floor is not None]
        ratios = _Spread.of([measure.ratio(value, floor) for value, floor in pairs if floor is not None])
        shown = ratios or values
        assert values is not None
        assert shown is not None
        return cls(
            measure=measure.name,
            value=values.median,
            unit=measure.unit,
            floor=statistics.median(floors) if floors else None,
            ratio=None if ratios is None else ratios.median,
            q25=shown.q25,
            q75=shown.q75,
            n=len(pairs),
            **_verdict(measure, values, ratios),
        )

    def to_json(self, machine: Machine) -> str:
        """Return the figure as one JSON object in one line."""
        rounded = {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }
        return json.dumps({**rounded, **asdict(machine)})

    def row(self) -> tuple[str, ...]:
        """Return the cells of its line in `figures_table`."""
        return (
            self.measure,
            _number(self.value),
            "" if self.floor is None else _number(self.floor),
            self.unit,
            "" if self.ratio is None else f"{self.ratio:.2f}",
            f"{self.q25:,.2f} to {self.q75:,.2f}",
            self._limit(),
            "" if self.met is None else "yes" if self.met else "no",
            f"{self.n}" if self.runs == 1 else f"{self.n}, again",
        )

    def _limit(self) -> str:
        if self.limit is None:
            return ""
        return f"{self.limit:.2f}" if self.limit_of == "ratio" else f"<= {self.limit:g} {self.unit}"


def figures_table(title: str) -> Table:
    """Return an empty table for figures."""
    table = Table(title=title, title_justify="left")
    table.add_column("measure", no_wrap=True)
    for column in ("value", "floor", "unit", "ratio", "quartiles", "limit", "met", "pairs"):
        table.add_column(column, justify="right", no_wrap=True)
    return table


#: So far beyond its limit may the worse quartile of a figure be whose median meets it.
SLACK = 0.15


@frozen
class _Spread:
    q25: float
    median: float
    q75: float

    @classmethod
    def of(cls, values: Sequence[float]) -> _Spread | None:
        """Return the quartiles of *values*, None if there are none."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0]) if values else None
        return cls(*statistics.quantiles(values, n=4, method="inclusive"))


def _verdict(measure: Measure, values: _Spread, ratios: _Spread | None) -> dict[str, Any]:
    """Return the limit of *measure*, and whether the median and the worse quartile say that it is met."""
    if measure.most is not None:
        met = values.median <= measure.most and values.q75 <= measure.most * (1 + SLACK)
        return {"limit": measure.most, "limit_of": "value", "met": met}
    if measure.limit is not None and ratios is not None:
        met = ratios.median >= measure.limit and ratios.q25 >= measure.limit * (1 - SLACK)
        return {"limit": measure.limit, "limit_of": "ratio", "met": met}
    return {}


@frozen(kw_only=True)
class Reading:
    """One figure and its limit: the median, the quartiles and the 95th percentile of *n* samples, or one number.

    *met*: whether *value*, the 95th percentile where there are samples, is within *limit*; null as the limit is.
    """

    measure: str
    value: float
    unit: str
    limit: float | None
    met: bool | None
    median: float
    q25: float
    q75: float
    worst: float
    n: int

    @classmethod
    def of(cls, measure: str, unit: str, samples: list[float], limit: float | None) -> Reading:
        """Make the reading from *samples*, at least one."""
        value = sorted(samples)[max(0, -(-len(samples) * 95 // 100) - 1)]
        spread = _Spread.of(samples)
        assert spread is not None
        return cls(
            measure=measure,
            value=value,
            unit=unit,
            limit=limit,
            met=None if limit is None else value <= limit,
            median=spread.median,
            q25=spread.q25,
            q75=spread.q75,
            worst=max(samples),
            n=len(samples),
        )

    def to_json(self, where: Machine) -> str:
        """Return the reading as one JSON object in one line. It has the keys of a figure, without a floor."""
        rounded = {
            name: round(value, 4) if type(value) is float else value for name, value in asdict(self).items()
        }
        return json.dumps({**rounded, "floor": None, "ratio": None, **asdict(where)})

    def row(self) -> tuple[str, ...]:
        """Return the cells of its line in `readings_table`."""
        return (
            self.measure,
            f"{self.value:.3f}",
            "" if self.limit is None else f"{self.limit:.3f}",
            self.unit,
            "" if self.met is None else "yes" if self.met else "no",
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


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
