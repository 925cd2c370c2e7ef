"""Every benchmark runs, and checks itself; how fast it is here does not matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAMES = (
    "claim",
    "settle",
    "drain",
    "enqueue",
    "enqueue_many",
    "latency",
    "backlog",
    "payload",
    "xmin",
    "scale",
)
REPOSITORY = Path(__file__).parents[2]
MACHINE = {"server", "python", "cpus"}
KEYS = {"measure", "value", "unit", "floor", "ratio", "q25", "q75", "n"} | MACHINE
KEYS |= {"limit", "limit_of", "met", "runs"}
LIMITED = {
    "measure",
    "value",
    "unit",
    "floor",
    "ratio",
    "q25",
    "q75",
    "limit",
    "met",
    "median",
    "worst",
    "n",
} | MACHINE


def figures_of(*args: str) -> list[dict[str, Any]]:
    """Run a benchmark and return the objects that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *args, "--json"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_finds_every_job_where_it_should_be(name: str, dsn: str) -> None:
    """The smoke form: a few jobs, one pair, every check; one JSON object for each measure."""
    figures = figures_of(name, "--smoke", "--dsn", dsn)
    assert figures
    assert all(set(figure) == KEYS for figure in figures)
    assert all(figure["measure"].startswith(name) for figure in figures)
    compared = [figure for figure in figures if "pgbench" not in figure["measure"]]
    assert all(figure["value"] > 0 and figure["floor"] > 0 for figure in compared)


def test_the_one_of_enqueue_counts_what_sleeping_workers_send() -> None:
    """On a server of its own, since it must have pg_stat_statements."""
    (figure,) = figures_of("enqueue", "--smoke", "--only", "sleeping workers")
    assert figure["value"] >= 2  # at least a claim and a settle
    assert (figure["floor"], figure["ratio"], figure["limit_of"]) == (None, None, "value")


def test_the_one_of_costs_counts_what_each_stage_writes() -> None:
    """There is no floor; how many rows a stage writes is known. On a server where nobody else writes."""
    figures = figures_of("cost", "--smoke")
    assert all(set(figure) == KEYS for figure in figures)
    values = {figure["measure"]: figure["value"] for figure in figures}
    assert all(value > 0 for name, value in values.items() if name.endswith(("CPU", "WAL")))
    rows = {name: round(value) for name, value in values.items() if name.endswith("rows 100, rows written")}
    assert rows == {
        "cost, enqueue, rows 100, rows written": 2,
        "cost, claim, rows 100, rows written": 2,
        "cost, heartbeat, rows 100, rows written": 1,
        "cost, complete, rows 100, rows written": 2,
        "cost, fail and wait for another attempt, rows 100, rows written": 3,
        "cost, prune, rows 100, rows written": 2,
    }


def test_the_one_of_memory_looks_at_a_worker_from_the_first_job_to_the_last(dsn: str) -> None:
    above, growth = figures_of("memory", "--samples", "1", "--jobs", "3000", "--dsn", dsn)
    assert all(set(each) == LIMITED for each in (above, growth))
    assert above["value"] > 0


def test_the_one_of_limits_completes_every_job_and_puts_the_jam_aside(dsn: str) -> None:
    small = ("--pairs", "1", "--jobs", "300", "--jam", "500", "--samples", "1")
    found = figures_of("limits", *small, "--dsn", dsn)
    figures, met = found[:3], found[3:]
    assert [figure["measure"] for figure in figures] == [
        "limits, 1,000 keys",
        "limits, behind a full key",
        "limits, behind expired jobs",
    ]
    assert all(set(figure) == KEYS for figure in figures)
    assert len(met) == 3
    assert all(set(each) == LIMITED and each["value"] > 0 for each in met)


def test_the_idle_one_counts_statements_and_starts_every_job() -> None:
    """One sample of each kind, on a server of its own, since it must have pg_stat_statements."""
    figures = figures_of("idle", "--seconds", "6", "--samples", "1")
    assert all(set(figure) == LIMITED for figure in figures)
    at_rest, delays = figures[:-6], figures[-6:]
    assert [figure["met"] is None for figure in at_rest[:2]] == [False, True]
    assert all(figure["value"] > 0 for figure in at_rest[:2])
    assert len({figure["measure"] for figure in delays}) == 6
    assert all(figure["value"] > -0.001 for figure in delays)
