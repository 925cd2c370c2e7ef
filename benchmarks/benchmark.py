"""What a benchmark is: a setup, a measured call, a floor and a check.

A module of this folder that measures something has one function

    def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]

and nothing of the loop: that is `harness.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen


class Incorrect(Exception):
    """A run did not do what it was asked: a job lost, run twice, or not where it should be. No figure counts."""


@frozen(kw_only=True)
class Measure:
    """One figure of a run. *cost*: less is better (CPU per job); otherwise more is (jobs/s).

    What must be reached, if anything: *limit* is the least ratio, *most* the greatest value.
    """

    name: str
    unit: str
    cost: bool = False
    limit: float | None = None
    most: float | None = None

    def ratio(self, value: float, floor: float) -> float:
        """Return how near *value* comes to *floor*: 1 is as good, 0.5 half as fast or twice as dear."""
        return floor / value if self.cost else value / floor


class Side(Protocol):
    """One of the two that are compared, the product or its floor."""

    def set_up(self) -> None:
        """Bring the database into the state that `call` begins with; not measured."""

    def call(self) -> Sequence[float]:
        """Do the work once and return its figures, one for each measure of the benchmark."""

    def check(self) -> None:
        """Raise `Incorrect` unless the last `call` did all of its work, and each part of it once."""


@frozen(kw_only=True)
class Benchmark:
    """A product side and the floor that it is compared with, in one or more measures.

    Without a floor, what comes out is a value, which has no ratio.
    """

    measures: tuple[Measure, ...]
    product: Side
    floor: Side | None


@frozen(kw_only=True)
class Scale:
    """How much work a run is.

    *jobs* is what the user asked for, None = each benchmark's own default. *smoke*: as little as proves that
    every part of the benchmark works; its figures mean nothing.
    """

    jobs: int | None = None
    smoke: bool = False

    def size(self, default: int, *, smoke: int = 200) -> int:
        """Return the number of jobs of one run."""
        if self.smoke:
            return smoke
        return default if self.jobs is None else self.jobs
