"""Every function has a file of its own, a header that says the same things in the same order, and a comment."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.sql_api import sql_api

FILES = sorted(sql_api.FUNCTIONS.glob("*/*.sql"))


@pytest.fixture(params=FILES, ids=lambda each: each.relative_to(sql_api.FUNCTIONS).as_posix())
def path(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_file_defines_the_one_function_it_is_named_after(path: Path) -> None:
    assert sql_api.read_function(path).names == (path.stem,)


def test_header_has_all_sections_in_their_order(path: Path) -> None:
    sections = sql_api.read_function(path).sections

    assert tuple(sections) == sql_api.SECTIONS
    assert all(text.endswith(".") for text in sections.values()), sections


def test_header_begins_with_one_sentence(path: Path) -> None:
    sentence = sql_api.read_function(path).sentence

    assert sentence[0].isupper()
    assert sentence.endswith(".")


def test_comment_is_the_first_sentence(path: Path) -> None:
    function = sql_api.read_function(path)

    assert function.comments == {path.stem: function.sentence}


def test_names_of_functions_are_unique() -> None:
    names = [each.stem for each in FILES]

    assert len(names) == len(set(names))
