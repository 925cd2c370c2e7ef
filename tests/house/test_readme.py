"""The README is true: its commands are those that are checked, its links lead somewhere."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskq_sync.cli import main


@pytest.fixture(scope="module")
def readme(checkout: Path) -> str:
    return (checkout / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ci(checkout: Path) -> str:
    return (checkout / ".ci" / "run").read_text(encoding="utf-8")


def commands(readme: str) -> list[list[str]]:
    blocks = re.findall(r"```(?:console|sh)\n(.*?)```", readme, flags=re.DOTALL)
    return [[line.removeprefix("$ ") for line in block.splitlines()] for block in blocks]


@pytest.mark.parametrize(
    ("number", "last"), [(0, ".venv/bin/taskq-sync demo"), (1, ".venv/bin/pytest -n auto")]
)
def test_ci_runs_both_commands_as_they_stand(readme, ci, number, last):
    lines = commands(readme)[number]
    assert lines[-1] == last
    assert "\n".join(lines) in ci.replace(" --quiet", "")


def test_the_two_commands_need_nothing_but_python(readme):
    for block in commands(readme)[:2]:
        assert block[0] == "python3 -m venv .venv"
        assert all(line.startswith(".venv/bin/") for line in block[1:])


def test_commands_of_the_usage_exist(readme):
    for line in itertools.chain(*commands(readme)):
        words = shlex.split(line.replace(".venv/bin/", ""))
        if words[0] == "taskq-sync":
            done = CliRunner().invoke(main, [words[1], "--help"])
            assert done.exit_code == 0, line
            options = [word for word in words[2:] if word.startswith("--")]
            assert all(option in done.output for option in options), line


def test_links_lead_to_files(readme, checkout):
    for target in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (checkout / target).exists(), target


def test_says_what_it_is_in_five_lines(readme):
    _, _, rest = readme.partition("\n\n")
    assert len(rest.partition("\n\n")[0].splitlines()) <= 5
