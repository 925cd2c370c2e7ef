"""Text made fit for PostgreSQL, and cut to its cap."""

# Scenarios B59, B61, B64.

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskq_sync.text import cut, find_unstorable, storable

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


def test_shows_what_cannot_be_stored_as_escapes() -> None:
    assert storable("a\x00b\udce9c") == "a\\x00b\\udce9c"


def test_finds_the_first_character_that_cannot_be_stored() -> None:
    assert find_unstorable("fine \U0001f600 \x01") is None
    assert find_unstorable("a\udcff\x00") == "\\udcff"


def test_leaves_a_text_within_the_cap_alone() -> None:
    assert cut("é" * 50, 100) == "é" * 50


def test_keeps_head_and_tail_of_a_long_text() -> None:
    shortened = cut("first" + "." * 500 + "last", 100)

    assert len(shortened.encode()) <= 100
    assert shortened.startswith("first.")
    assert shortened.endswith(".last")
    assert "bytes cut" in shortened


def test_cuts_a_text_of_many_megabytes_to_the_cap() -> None:
    shortened = cut("é" * 5_000_000, 8192)

    assert 8000 < len(shortened.encode()) <= 8192


@given(ANY_TEXT, st.integers(64, 200))
def test_is_always_storable_and_within_the_cap(text: str, cap: int) -> None:
    shortened = cut(text * 3, cap)

    assert find_unstorable(shortened) is None
    assert len(shortened.encode()) <= cap
