"""JSON as PostgreSQL holds it."""

# Scenarios B59, B60, B61, B62.

from __future__ import annotations

import json
import math
from collections import UserDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_sync import jsontext
from taskq_sync.errors import PayloadError
from taskq_sync.jsontext import MAX_DEPTH, write

STORABLE_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"))
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | STORABLE_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(STORABLE_TEXT, inner),
    max_leaves=20,
)


@given(TREES)
def test_python_reads_back_what_was_written(value: Any) -> None:
    restored = json.loads(write(value, "value"))

    assert restored == value
    assert repr(restored) == repr(value)  # 1.0 is not 1, True is not 1


def test_has_the_form_of_jsonb_as_text() -> None:
    assert write({"a": [1, None, True], "b": {}, "c": []}, "value") == (
        '{"a": [1, null, true], "b": {}, "c": []}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e22, "10000000000000000000000.0"),
        (1.5e-7, "0.00000015"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (2**63 + 1, "9223372036854775809"),
        ((1, 2), "[1, 2]"),
        ('a"\n\x01é🐘', '"a\\"\\n\\u0001é🐘"'),
        (MappingProxyType({"a": 1}), '{"a": 1}'),
        (UserDict(a=1), '{"a": 1}'),
    ],
)
def test_writes(value: object, text: str) -> None:
    assert write(value, "value") == text


def too_deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(MAX_DEPTH):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (math.nan, "$", "nan is no JSON value"),
        ([1, math.inf], "$[1]", "inf is no JSON value"),
        ({"items": [{}, {"price": -math.inf}]}, "$.items[1].price", "-inf"),
        ({"a b": {1, 2}}, '$["a b"]', "a set is no JSON value"),
        ({"a": object()}, "$.a", "an object is no JSON value"),
        ({"a": b"x"}, "$.a", "a bytes is no JSON value"),
        ({"a": {1: "x"}}, '$.a["1"]', "a key must be a str, not an int"),
        ({"a": ["x\x00"]}, "$.a[0]", r"a text with \x00"),
        ({"a": "\udce9"}, "$.a", r"a text with \udce9"),
        ({"a\x00": 1}, '$["a\\u0000"]', r"a text with \x00"),
        ({"n": 10**5000}, "$.n", "too many digits"),
        ([jsontext.Unfit("a naive datetime")], "$[0]", "a naive datetime"),
    ],
)
def test_refuses_with_the_path(value: object, path: str, reason: str) -> None:
    with pytest.raises(PayloadError) as caught:
        write(value, "result")

    assert caught.value.path == path
    assert str(caught.value).startswith("result cannot be stored as JSON: ")
    assert reason in str(caught.value)


def test_refuses_what_is_too_deep_by_a_short_path() -> None:
    with pytest.raises(PayloadError, match=r"nested more than 200 levels deep at \$(\[0\]){20}\.\.\.$"):
        write([too_deep()], "value")


def test_takes_the_greatest_depth() -> None:
    assert write(too_deep()[0], "value") == "[" * MAX_DEPTH + "]" * MAX_DEPTH


def test_refuses_a_list_that_holds_itself() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(PayloadError, match="levels deep"):
        write(value, "value")


def test_the_path_goes_on_from_where_the_value_is() -> None:
    with pytest.raises(PayloadError) as caught:
        write([math.nan], "payload", path="$.prices")

    assert caught.value.path == "$.prices[0]"


@pytest.mark.parametrize("text", ['{"a": [1, 2.5]}', ' \t\n{"a": [1, 2.5]}\r\n '])
def test_reads_with_white_space_around(text: str) -> None:
    assert jsontext.read(text) == {"a": [1, 2.5]}


@pytest.mark.parametrize("text", ["", "  ", '{"a": 1} x', "1 2", "\ufeff1", "\xa01", "{"])
def test_reads_nothing_but_one_value(text: str) -> None:
    with pytest.raises(PayloadError, match="the JSON cannot be read"):
        jsontext.read(text)
