"""The table of deliberate faults still fits the code, the tests and the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mutations.mutation import Mutation
from mutations.table import MUTATIONS, as_markdown


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_fault_has_one_place_and_a_test(mutation: Mutation, checkout: Path) -> None:
    assert mutation.places(checkout) == 1
    assert mutation.old != mutation.new
    path, _, name = mutation.caught_by.partition("::")
    text = (checkout / path).read_text(encoding="utf-8")
    for word in filter(None, name.partition("[")[0].split("::")):
        assert re.search(rf"^ *(?:def|class) {word}\b", text, re.MULTILINE), word


def test_names_are_unique() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)


def test_there_are_faults_on_both_sides() -> None:
    in_sql = [each for each in MUTATIONS if each.file.startswith("sql/")]
    assert min(len(in_sql), len(MUTATIONS) - len(in_sql)) >= 8


def test_the_page_has_the_table(checkout: Path) -> None:
    """After a change: `python -m tests.mutations --table`."""
    assert as_markdown() in (checkout / "docs" / "reliability.md").read_text(encoding="utf-8")
