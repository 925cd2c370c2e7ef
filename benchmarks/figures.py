"""From the runs of a benchmark to its figures: medians, quartiles, one JSON object and one line of the table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from attrs import asdict, frozen

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


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    q25, median, q75 = statistics.quantiles(values, n=4, method="inclusive")
    return q25, median, q75
