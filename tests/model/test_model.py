"""The database does what the specification says, call by call. The specification is `model/specification`.

`TASKQ_MODEL_PROFILE` says for how long: `ci` (the default) for two minutes, `nightly` for an hour, or a number of
seconds. A run prints its seed when it fails, and in any case with `pytest -s`; `TASKQ_MODEL_SEED` repeats it. What a
failing run prints is its shortest script for psql, with what each statement was answered, and how the database differs
after the last one.
"""

from __future__ import annotations

import ast
import io
import os
import random
import tokenize
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kit.contract import Clock, Connection
from model.database import Database
from model.machine import CALLED, Model
from model.watch import TimeIsUp, Watch

#: Of searching; what is found may be shrunk in a quarter of the time more.
PROFILES = {"ci": 96.0, "nightly": 3600.0}
#: So many examples, of so many steps, have a seed of their own: what Hypothesis remembers of them stays bounded.
EXAMPLES, STEPS = 200, 50


def _seconds() -> float:
    profile = os.environ.get("TASKQ_MODEL_PROFILE", "ci")
    return PROFILES[profile] if profile in PROFILES else float(profile)


def _seed() -> int:
    return int(os.environ.get("TASKQ_MODEL_SEED") or random.SystemRandom().randrange(1_000_000) * 1000)


@pytest.fixture
def database(connect: Callable[..., Connection]) -> Database:
    """Three sessions, one that looks, and one that sets the clock."""
    return Database([connect() for _ in range(3)], connect(), Clock(connect()))


@pytest.mark.own_database
def test_the_database_does_what_the_specification_says(database: Database) -> None:
    seed, watch = _seed(), Watch(_seconds())
    print(f"TASKQ_MODEL_SEED={seed}", flush=True)  # noqa: T201 - so that one may repeat the run
    try:
        while True:
            search(database, watch, seed + watch.seeds)
            watch.seeds += 1
    except (TimeIsUp, Exception):
        if not watch.is_over and watch.shortest is None:
            raise
    print(watch)  # noqa: T201

    if watch.shortest is not None:
        report = f"TASKQ_MODEL_SEED={seed + watch.seeds}\n\n{watch.shortest}\n\n{watch.problem}"
        pytest.fail(report, pytrace=False)


def search(database: Database, watch: Watch, seed: int) -> None:
    """Try so many examples of one seed; raises TimeIsUp, and whatever Hypothesis has found."""
    run_state_machine_as_test(
        hypothesis.seed(seed)(lambda: Model(database, watch)),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_every_function_of_the_contract_has_a_rule(sql_root: Path) -> None:
    functions = sql_root / "functions"
    public = {path.stem for path in functions.glob("*/*.sql") if path.parent.name != "internal"}

    assert public == CALLED


def test_the_specification_is_short(checkout: Path) -> None:
    """The rules take at most 400 lines, without imports, docstrings, comments and blank lines."""
    folder = checkout / "tests" / "model" / "specification"
    rules = [path for path in folder.glob("*.py") if path.name != "state.py"]

    assert rules
    assert sum(_lines_of_code(path.read_text()) for path in rules) <= 400


def _lines_of_code(text: str) -> int:
    """Count the lines on which there is a token of a statement."""
    tree = ast.parse(text)
    passed_over = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            passed_over.append(node.body[0])
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = [each for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.type not in blank]
    lines = {line for each in tokens for line in range(each.start[0], each.end[0] + 1)}
    return len(lines - {line for node in passed_over for line in range(node.lineno, node.end_lineno + 1)})
