"""The unique key that is made of the arguments."""

# Scenario B39: a key made of many arguments is short.

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_sync import jsontext
from taskq_sync.argument_key import argument_key

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('aé"\\'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("aé"), inner, max_size=3),
    max_leaves=8,
)


def key(**members: object) -> str:
    return argument_key("t", jsontext.write(members, "payload"))


def test_is_the_name_of_the_task_and_a_hash() -> None:
    """The value must never change: a key of the last release must meet one of this release."""
    payload = '{"user_id": 7, "note": "é \\n", "at": 1.50, "flags": [true, null, {"b": 1, "a": -0.0}]}'

    assert argument_key("mail.welcome", payload) == (
        "mail.welcome:7aa2ddf1264040a85c011e5b11ed9fbad4f87a7db907b457dc7d190e262e8495"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ('{"a": {"x": 1, "y": [{"p": 1, "q": 2}]}}', '{"a": {"y": [{"q": 2, "p": 1}], "x": 1}}'),
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 100}', '{"a": 100.00}'),
        ('{"a": 0}', '{"a": -0.0}'),
        ('{"a": 10000000000000000000000}', '{"a": 10000000000000000000000.0}'),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
        ('{"a":1}', '{ "a" : 1 }'),
    ],
)
def test_is_the_same_for_equal_payloads(one: str, other: str) -> None:
    assert argument_key("t", one) == argument_key("t", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": None}, {}),
        ({"a": None}, {"a": "null"}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": []}, {"a": {}}),
        ({"a": 0.1}, {"a": 0.10000000000000002}),
        ({"a": 2**53}, {"a": 2**53 + 1}),
        ({"a": "é"}, {"a": "e\u0301"}),
        ({"a": "k"}, {"a": "k "}),
        ({"a": '1,"b":2'}, {"a": "1", "b": 2}),
    ],
)
def test_differs_for_different_payloads(one: dict[str, object], other: dict[str, object]) -> None:
    assert key(**one) != key(**other)


def test_differs_between_tasks_with_the_same_arguments() -> None:
    assert argument_key("a", "{}").partition(":")[2] != argument_key("b", "{}").partition(":")[2]


def test_counts_only_the_names_that_were_chosen() -> None:
    one, other = '{"user_id": 7, "note": "a"}', '{"note": "b", "user_id": 7}'

    assert argument_key("t", one, ["user_id"]) == argument_key("t", other, ["user_id"])
    assert argument_key("t", one, ["user_id", "note"]) == argument_key("t", one, ["note", "user_id"])
    assert argument_key("t", one, ["user_id", "note"]) == argument_key("t", one)
    assert argument_key("t", '{"user_id": 7}', ["user_id", "note"]) == argument_key("t", '{"user_id": 7}')


def test_takes_numbers_of_more_digits_than_python_reads() -> None:
    digits = "9" * 6000

    assert argument_key("t", f'{{"a": {digits}}}') != argument_key("t", f'{{"a": {digits}9}}')


def test_is_at_most_255_bytes_long() -> None:
    assert len(argument_key("é" * 60, '{"a": "' + "x" * 60_000 + '"}').encode()) == 185


@given(st.dictionaries(st.text("aé"), JSON, max_size=4), st.dictionaries(st.text("aé"), JSON, max_size=4))
def test_is_equal_exactly_when_the_payloads_are(one: dict[str, object], other: dict[str, object]) -> None:
    # What two texts have in common once each number has the one form that Python gives to equal numbers.
    def form(value: dict[str, object]) -> str:
        return json.dumps(_exact(json.loads(jsontext.write(value, "payload"))), sort_keys=True)

    assert (key(**one) == key(**other)) == (form(one) == form(other))
    assert key(**one) == key(**dict(reversed(one.items())))


def _exact(value: object) -> object:
    if isinstance(value, dict):
        return {name: _exact(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize("seed", ["0", "1"])
def test_is_the_same_in_every_process(seed: str) -> None:
    payload = '{"a": {"c": 1, "b": [1.5]}, "z": "é"}'
    code = f"from taskq_sync.argument_key import argument_key; print(argument_key('t', {payload!r}))"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C"},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == argument_key("t", payload)
