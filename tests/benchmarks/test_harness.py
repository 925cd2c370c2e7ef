"""The loop of the benchmarks, with sides that need no database."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field
from click.testing import CliRunner

from benchmarks import compare, harness, pgbench, plot
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


LIMITED = Measure(name="rate", unit="jobs/s", limit=0.6)
MACHINE = Machine(server="18.1", python="3.13.0", cpus=2)
BOUNDED = Measure(name="CPU", unit="us", cost=True, most=30.0)


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


@pytest.mark.parametrize(
    ("ratios", "met"),
    [
        ([0.6, 0.6, 0.6], True),
        ([0.42, 0.6, 0.9], True),  # the quartile is 0.51, just within 15 %
        ([0.41, 0.6, 0.9], False),
        ([0.59, 0.59, 0.9], False),
    ],
)
def test_meets_a_limit_by_the_median_and_a_lower_quartile_within_15_percent(
    ratios: list[float], met: bool
) -> None:
    figure = Figure.of(LIMITED, [(ratio, 1.0) for ratio in ratios])
    assert (figure.limit, figure.limit_of, figure.met) == (0.6, "ratio", met)


@pytest.mark.parametrize(
    ("values", "met"),
    [([10.0, 30.0, 39.0], True), ([10.0, 30.0, 39.1], False), ([30.1, 30.1, 30.1], False)],
)
def test_meets_a_limit_of_the_value_likewise(values: list[float], met: bool) -> None:
    figure = Figure.of(BOUNDED, [(value, 10.0) for value in values])
    assert (figure.limit, figure.limit_of, figure.met) == (30.0, "value", met)


def test_a_figure_without_a_floor_has_no_ratio_but_the_quartiles_of_its_values() -> None:
    benchmark = _benchmark([(10.0,), (20.0,), (30.0,)], [])
    (figure,) = harness.run(evolve(benchmark, floor=None), pairs=3, warm_up=False)
    assert (figure.value, figure.floor, figure.ratio) == (20.0, None, None)
    assert (figure.q25, figure.q75) == (15.0, 25.0)


def test_measures_once_more_what_missed_its_limit_and_only_that() -> None:
    """The second figure stands, better or worse; what was met stays as it was."""
    runs = [(5.0, 70.0)] * 3 + [(8.0, 10.0)] * 3
    measures = (LIMITED, evolve(LIMITED, name="other"))
    first, other = harness.run(_benchmark(runs, [(10.0, 100.0)], measures=measures), pairs=3, warm_up=False)
    assert (first.ratio, first.met, first.runs, first.n) == (0.8, True, 2, 3)
    assert (other.ratio, other.met, other.runs) == (0.7, True, 1)


def test_does_not_measure_again_when_told_not_to() -> None:
    told: list[str] = []
    benchmark = _benchmark([(5.0,)], [(10.0,)], measures=(LIMITED,), told=told)
    (figure,) = harness.run(benchmark, pairs=1, warm_up=False, again=False)
    assert (figure.met, told.count("call product")) == (False, 1)


def test_draws_the_ratios_as_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = [Figure.of(measure, [(1.0, 3.0), (2.0, 3.0)]) for measure in (RATE, LIMITED, BOUNDED)]
    target = tmp_path / "ratios.png"
    plot.write([*figures, Figure.of(RATE, [(1.0, None)])], MACHINE, str(target))
    assert target.read_bytes().startswith(b"\x89PNG")


def test_says_what_a_picture_needs_before_it_measures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plot.importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["claim", "--plot", str(tmp_path / "ratios.png")])
    assert result.exit_code == 2
    assert "--plot needs matplotlib: pip install 'taskq-sync[bench]'" in result.output


def test_leaves_out_pgbench_with_a_note_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pgbench.shutil, "which", lambda name: None)
    monkeypatch.setattr(pgbench.importlib.util, "find_spec", lambda name: None)
    assert pgbench.program() is None
    assert "no pgbench here" in capsys.readouterr().err


def test_all_runs_every_benchmark() -> None:
    told = main.commands["all"].help
    assert told is not None
    assert [name for name in main.commands if name not in told and name not in ("all", "soak")] == []


def test_writes_a_figure_as_one_line_of_json() -> None:
    figure = Figure.of(RATE, [(1.0, 3.0)])
    line = figure.to_json(MACHINE)
    assert json.loads(line) == {
        "measure": "rate",
        "value": 1.0,
        "unit": "jobs/s",
        "floor": 3.0,
        "ratio": 0.3333,
        "q25": 0.3333,
        "q75": 0.3333,
        "n": 1,
        "limit": None,
        "limit_of": None,
        "met": None,
        "runs": 1,
        "server": "18.1",
        "python": "3.13.0",
        "cpus": 2,
    }
    assert "\n" not in line


def test_the_command_fails_with_a_sentence_when_a_run_was_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(*args: object) -> Callable[[], None]:
        raise Incorrect("claimed: 199 of 200 jobs")

    monkeypatch.setattr(compare, "server", lambda dsn, settings: nullcontext("dsn"))
    monkeypatch.setattr(compare, "machine", lambda dsn: MACHINE)
    monkeypatch.setattr(compare, "warnings", lambda dsn: [])
    monkeypatch.setattr(compare, "_figures", figures)
    result = CliRunner().invoke(main, ["claim"])
    assert result.exit_code == 1
    assert "incorrect: claimed: 199 of 200 jobs" in result.output
