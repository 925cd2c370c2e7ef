"""Every benchmark runs, and checks itself; how fast it is here does not matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("claim", "settle", "drain", "enqueue_many")
REPOSITORY = Path(__file__).parents[2]
KEYS = {"measure", "value", "unit", "floor", "ratio", "q25", "q75", "n", "server", "python", "cpus"}


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_finds_every_job_where_it_should_be(name: str, dsn: str) -> None:
    """The smoke form: a few jobs, one pair, every check; one JSON object for each measure."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, "--smoke", "--json", "--dsn", dsn],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert figures
    assert all(set(figure) == KEYS for figure in figures)
    assert all(figure["measure"].startswith(name.replace("_many", "")) for figure in figures)
    assert all(figure["value"] > 0 and figure["floor"] > 0 for figure in figures)
