"""Values that surely come back: they are written as the long way writes them, and the long way takes them too."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import date
from enum import IntEnum
from typing import Any, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_sync import codec, jsontext
from taskq_sync.codec import TypeCodec
from taskq_sync.errors import PayloadError
from taskq_sync.exact import writer_of
from taskq_sync.jsontext import Refused
from taskq_sync.model import JsonValue


class Level(IntEnum):
    LOW = 1


class Text(str):
    pass


TYPES = (
    *(bool, int, float, str, list, dict, Any, object, JsonValue),
    # The old forms too, which are other objects.
    *(int | None, str | None, Union[int, str], int | float | bool | str | None, float | None),  # noqa: UP007
    *(list[int], list[str], dict[str, float], dict[str, int], list[Any], dict[str, Any], list[int] | None),
    *(list[list[int | None]], dict[str, list[str]], Optional[dict[str, Any]], list[dict[str, JsonValue]]),  # noqa: UP045
)

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from("\x00é\\")
)
_others = st.sampled_from(
    [
        Level.LOW,
        Text("x"),
        (1, 2),
        OrderedDict(a=1),
        date(2026, 2, 3),
        {1},
        b"x",
        {1: 2},
        {Text("k"): 1},
        "\ud800",
    ]
)
_values = st.recursive(
    _scalars | _others,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=8,
)


def the_long_way(value: object, declared: object) -> str:
    """Write and read back as a payload does; raise `PayloadError` where it would."""
    typed = TypeCodec(declared, "x")
    text = jsontext.write(typed.to_plain(value, "$"), "value")
    if codec.find_difference(value, typed.structure(codec.from_json(text), "$"), "$") is not None:
        raise PayloadError("changed", path="$")
    return text


@given(st.sampled_from(TYPES), _values)
def test_what_is_written_at_once_is_what_the_long_way_writes(declared: Any, value: object) -> None:
    write = writer_of(declared)
    assert write is not None
    try:
        text = write(value)
    except Refused:
        return

    assert text == the_long_way(value, declared)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (7, int),
        ("é", str),
        (None, int | None),
        ([1, [2.5, None, {"a": True}]], Any),
        ({"a": [1, 2]}, dict[str, list[int]]),
        ([], list[str]),
        ({}, dict),
    ],
    ids=str,
)
def test_knows_the_usual_values(value: object, declared: Any) -> None:
    write = writer_of(declared)

    assert write is not None
    assert write(value) == the_long_way(value, declared)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (True, int),
        (3, float),
        (Level.LOW, int),
        (Text("x"), str),
        ("a\x00", str),
        (float("nan"), float),
        ((1, 2), list[int]),
        (OrderedDict(a=1), Any),
        ({1: 2}, dict[str, int]),
        ({Text("k"): 1}, Any),
        (date(2026, 2, 3), Any),
    ],
    ids=repr,
)
def test_leaves_all_else_to_the_long_way(value: object, declared: Any) -> None:
    write = writer_of(declared)

    assert write is not None
    with pytest.raises(Refused):
        write(value)


def test_leaves_what_is_nested_deeply_to_the_long_way() -> None:
    value: list[object] = []
    value.append(value)
    write = writer_of(Any)

    assert write is not None
    with pytest.raises(Refused):
        write(value)


@pytest.mark.parametrize(
    "declared",
    [date, tuple[int, ...], Sequence[int], Literal["a"], dict[Level, int], list[date], int | date, Level],
)
def test_has_no_writer_for_types_of_other_values(declared: Any) -> None:
    assert writer_of(declared) is None
