"""The loop of every benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from benchmarks.benchmark import Benchmark, Side
from benchmarks.figures import Figure

#: Pairs of a run that is to be believed.
PAIRS = 7


def run(
    benchmark: Benchmark,
    *,
    pairs: int = PAIRS,
    warm_up: bool = True,
    again: bool = True,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Figure]:
    """Measure *pairs* times and return one figure for each measure of *benchmark*.

    The sides of a pair run back to back and take turns in going first, so that a machine that gets slower is slow
    for both. With *warm_up* a pair that nobody counts goes before. Each run is checked; `Incorrect` ends it all.
    With *again*, a figure that misses its limit is measured once more, and what comes out then stands.
    *progress* is called with the number of pairs done.
    """
    if warm_up:
        _run_pair(benchmark, floor_first=True)
    figures = _measure(benchmark, pairs, progress)
    if again and any(figure.met is False for figure in figures):
        second = _measure(benchmark, pairs, progress)
        figures = [
            evolve(new, runs=2) if old.met is False else old for old, new in zip(figures, second, strict=True)
        ]
    return figures


def _measure(benchmark: Benchmark, pairs: int, progress: Callable[[int], None]) -> list[Figure]:
    found: list[tuple[Sequence[float], Sequence[float | None]]] = []
    for number in range(pairs):
        progress(number)
        found.append(_run_pair(benchmark, floor_first=number % 2 == 1))
    return [
        Figure.of(measure, [(values[place], floors[place]) for values, floors in found])
        for place, measure in enumerate(benchmark.measures)
    ]


def _run_pair(benchmark: Benchmark, *, floor_first: bool) -> tuple[Sequence[float], Sequence[float | None]]:
    if benchmark.floor is None:
        return _run_side(benchmark.product), [None] * len(benchmark.measures)
    if floor_first:
        floors = _run_side(benchmark.floor)
        return _run_side(benchmark.product), floors
    values = _run_side(benchmark.product)
    return values, _run_side(benchmark.floor)


def _run_side(side: Side) -> Sequence[float]:
    side.set_up()
    values = side.call()
    side.check()
    return values
