"""The loop of the benchmarks, with sides that need no database."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from attrs import define, field
from click.testing import CliRunner

from benchmarks import compare, harness
from benchmarks.__main__ import main
from benchmarks.benchmark import Benchmark, Incorrect, Measure
from benchmarks.figures import Figure, Machine

RATE = Measure(name="rate", unit="jobs/s")
COST = Measure(name="cost", unit="us", cost=True)


@define
class _Side:
    """A side that tells what is done with it, and has its figures ready."""

    told: list[str]
    name: str
    values: list[tuple[float, ...]]
    fault: str | None = None
    runs: int = field(init=False, default=0)

    def set_up(self) -> None:
        self.told.append(f"set up {self.name}")

    def call(self) -> Sequence[float]:
        self.told.append(f"call {self.name}")
        self.runs += 1
        return self.values[min(self.runs, len(self.values)) - 1]

    def check(self) -> None:
        self.told.append(f"check {self.name}")
        if self.fault is not None:
            raise Incorrect(self.fault)


def _benchmark(product: list[tuple[float, ...]], floor: list[tuple[float, ...]], **options: Any) -> Benchmark:
    told: list[str] = options.pop("told", [])
    return Benchmark(
        measures=options.pop("measures", (RATE,)),
        product=_Side(told, "product", product, **options),
        floor=_Side(told, "floor", floor),
    )


def test_sets_up_calls_and_checks_each_side_of_a_pair_and_lets_them_go_first_by_turns() -> None:
    told: list[str] = []
    harness.run(_benchmark([(1.0,)], [(1.0,)], told=told), pairs=2, warm_up=False)
    order = [("set up", "call", "check")] * 4
    sides = ["product", "floor", "floor", "product"]
    assert told == [f"{step} {side}" for steps, side in zip(order, sides, strict=True) for step in steps]


def test_does_not_count_the_pair_that_warms_up() -> None:
    (figure,) = harness.run(_benchmark([(1.0,), (50.0,)], [(100.0,)]), pairs=3)
    assert (figure.value, figure.floor, figure.ratio, figure.n) == (50.0, 100.0, 0.5, 3)


def test_gives_the_median_and_the_quartiles_of_the_ratios_of_the_pairs() -> None:
    """Not the ratio of the medians: the sides of a pair ran on the same machine at the same time."""
    runs = [(10.0,), (20.0,), (300.0,), (40.0,), (50.0,)]
    floors = [(100.0,), (100.0,), (1000.0,), (100.0,), (100.0,)]
    (figure,) = harness.run(_benchmark(runs, floors), pairs=5, warm_up=False)
    assert (figure.q25, figure.ratio, figure.q75) == pytest.approx((0.2, 0.3, 0.4))


def test_gives_a_figure_for_each_measure_and_turns_the_ratio_of_a_cost_round() -> None:
    rate, cost = harness.run(
        _benchmark([(50.0, 40.0)], [(100.0, 10.0)], measures=(RATE, COST)), pairs=1, warm_up=False
    )
    assert (rate.measure, rate.ratio) == ("rate", 0.5)
    assert (cost.measure, cost.ratio) == ("cost", 0.25)


def test_gives_no_figure_when_a_run_was_not_right() -> None:
    with pytest.raises(Incorrect, match="1 job twice"):
        harness.run(_benchmark([(1.0,)], [(1.0,)], fault="1 job twice"))


def test_writes_a_figure_as_one_line_of_json() -> None:
    figure = Figure.of(RATE, [(1.0, 3.0)])
    line = figure.to_json(Machine(server="18.1", python="3.13.0", cpus=2))
    assert json.loads(line) == {
        "measure": "rate",
        "value": 1.0,
        "unit": "jobs/s",
        "floor": 3.0,
        "ratio": 0.3333,
        "q25": 0.3333,
        "q75": 0.3333,
        "n": 1,
        "server": "18.1",
        "python": "3.13.0",
        "cpus": 2,
    }
    assert "\n" not in line


def test_the_command_fails_with_a_sentence_when_a_run_was_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(*args: object) -> Callable[[], None]:
        raise Incorrect("claimed: 199 of 200 jobs")

    monkeypatch.setattr(compare, "server", lambda dsn: nullcontext("dsn"))
    monkeypatch.setattr(compare, "machine", lambda dsn: Machine(server="18.1", python="3.13.0", cpus=2))
    monkeypatch.setattr(compare, "warnings", lambda dsn: [])
    monkeypatch.setattr(compare, "_figures", figures)
    result = CliRunner().invoke(main, ["claim"])
    assert result.exit_code == 1
    assert "incorrect: claimed: 199 of 200 jobs" in result.output
