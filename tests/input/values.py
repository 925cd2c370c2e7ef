"""Hostile values by type, as the text that a client sends, and strategies that draw more of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import hypothesis.strategies as st

#: Longer than any cap on names and keys.
LONG = "é" * 50_000

#: Two sides of an interval that nearly cancel each other: compared, they are short, added, out of range.
LOPSIDED = [
    "71582788 months -2147483640 days",
    "71582788 months -2147483639 days",
    "-71582788 months 2147483641 days",
    "-3000000 days 72000024 hours",
    "106000000 days -2543999976 hours",
    "1000 years -359999 days",
]

_DEEP = 6_000
_TEXT = [
    "",
    " ",
    "null",
    "0",
    "*",
    "q ",
    "Q",
    "e\u0301",
    "🐘",
    "\x01",
    "a\tb\nc",
    "\x1b[2J\x9b1m",
    "\u202eabc\ufeff",
    "\ufffe\U0010ffff",
    "'; drop table taskq.jobs; --",
    'taskq.jobs"; $$ \\ %s %1$I {0}',
    "pg_catalog.pg_class",
    "[bold]x[/]",
    "x" * 121,
    "x" * 256,
    "é" * 128,
    LONG,
]
_JSON = [
    "null",
    "true",
    "7",
    "-0",
    "1e400",
    "1e-400",
    "-1e131000",
    '""',
    '"{}"',
    "[]",
    "{}",
    "[null]",
    "[[]]",
    "[{}, 7]",
    '{"": null}',
    '{"a": 1, "a": 2}',
    '{"job_id": 1, "attempt_id": 1, "verb": "complete"}',
    '{"queues": {"a": 1}, "pid": "\u0663", "slots": 1e400, "announce_every": "9e9", "state": [1]}',
    '{"queues": [null, 1, {}, ["q"]], "pid": -1, "slots": "07", "announce_every": "1.5"}',
    '[{"task": "t"}, {"task": "t", "priorty": 1}]',
    '"\\u0001\u0085\u2028"',
    json.dumps(LONG, ensure_ascii=False),
    json.dumps({"x": LONG}, ensure_ascii=False),
    "[" * _DEEP + "]" * _DEEP,
    '{"a": ' * _DEEP + "1" + "}" * _DEEP,
    # no JSON of PostgreSQL's
    "",
    "{",
    "NaN",
    "01",
    '"\\u0000"',
    '"\\ud800"',
    "[" * 1_000_000,
]
_INTEGER = ["0", "-1", "1", "7", "32767", "-32769", "2147483647", "-2147483648", "9223372036854775807"]
_NO_INTEGER = ["", "abc", "1.5", "1e3", "NaN", "99999999999999999999999"]
_INTERVAL = [
    "0",
    "-1 microsecond",
    "0.1 s",
    "0.0000001 s",
    "1 day -1 hour",
    "366 days",
    "367 days",
    "12 months",
    "1 month -30 days",
    "P1Y",
    "178000000 years",
    "-178000000 years",
    "2147483647 days",
    "9223372036854 s",
    *LOPSIDED,
    "infinity",
    "-infinity",
    # none
    "",
    "abc",
    "1e400 s",
    "999999999999 years",
]
_INSTANT = [
    "infinity",
    "-infinity",
    "epoch",
    "now",
    "tomorrow",
    "1969-12-31 23:59:59+00",
    "0001-01-01 00:00+15:59",
    "4713-01-01 00:00+00 BC",
    "9999-12-31 23:59:59+00",
    "294276-12-31 23:59:59+00",
    # none
    "",
    "abc",
    "2030-02-30",
    "294277-01-01",
    "2030-01-01 00:00 Atlantis",
]
_TEXTS = [
    "{}",
    "{NULL}",
    "{q,NULL}",
    "{q,q}",
    '{""}',
    "{{q,r},{s,t}}",
    "{{{q}}}",
    "[0:1]={q,r}",
    "[-5:-5]={q}",
    r'{"a\"b\\","{}",NULL,null}',
    "{" + "x" * 5_000 + "}",
    "{" + ",".join(f"q{n}" for n in range(101)) + "}",
    "{" + ",".join("NULL" for _ in range(20_000)) + "}",
    # none
    "",
    "q",
    "{q",
    "{{q},r}",
    "[2:1]={}",
    "{{{{{{{q}}}}}}}",
]
_NUMBERS = [
    "{}",
    "{NULL}",
    "{1,NULL}",
    "{1,2,3}",
    "{1,1}",
    "{{1,2},{3,4}}",
    "[0:0]={1}",
    "{-1}",
    "{9223372036854775807,-9223372036854775808}",
    "{" + ",".join(map(str, range(10_001))) + "}",
    # none
    "",
    "{x}",
    "{1.5}",
    "{9223372036854775808}",
    "{1",
]

#: By the type's name in the catalog; null is one of each.
HOSTILE: Mapping[str, list[str | None]] = {
    "text": [None, *_TEXT],
    "jsonb": [None, *_JSON],
    "smallint": [None, *_INTEGER, *_NO_INTEGER],
    "integer": [None, *_INTEGER, *_NO_INTEGER],
    "bigint": [None, *_INTEGER, *_NO_INTEGER],
    "boolean": [None, "true", "false", "", "maybe", "2"],
    "interval": [None, *_INTERVAL],
    "timestamp with time zone": [None, *_INSTANT],
    "text[]": [None, *_TEXTS],
    "bigint[]": [None, *_NUMBERS],
}

#: Texts that are kept for people, whatever they say.
_DIAGNOSTICS = ("p_actor", "p_reason", "p_cause", "p_error")

#: What PostgreSQL itself answers to a text that is no value of a type, before a function is entered.
UNREADABLE = frozenset(
    {
        "22P02",  # invalid_text_representation
        "22P05",  # untranslatable_character: \u0000 in JSON
        "22003",  # numeric_value_out_of_range
        "22007",  # invalid_datetime_format
        "22008",  # datetime_field_overflow
        "22015",  # interval_field_overflow
        "22023",  # invalid_parameter_value: no such time zone
        "2202E",  # array_subscript_error
        "54000",  # program_limit_exceeded: an array of seven dimensions
        "54001",  # statement_too_complex: JSON too deep
    }
)

_texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=300)
_whole = st.integers(-(2**63), 2**63 - 1)
_spans = st.builds(
    "{} months {} days {} microseconds".format,
    st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 20),
    st.integers(-(2**31), 2**31 - 1) | st.integers(-400, 400),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**8), 10**8),
)

#: JSON values as Python objects; what Python cannot hold (1e400) is in the list above.
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
        _texts,
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=10,
)

_ARBITRARY: Mapping[str, st.SearchStrategy[str]] = {
    "text": _texts,
    "jsonb": json_values.map(json.dumps),
    "smallint": st.integers(-(2**15), 2**15 - 1).map(str),
    "integer": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": _whole.map(str),
    "boolean": st.sampled_from(["true", "false"]),
    "interval": _spans,
    "timestamp with time zone": st.datetimes().map(lambda when: f"{when.isoformat()}+00"),
    "text[]": st.lists(st.none() | _texts, max_size=4).map(lambda texts: _array(texts)),
    "bigint[]": st.lists(st.none() | _whole, max_size=4).map(lambda numbers: _array(numbers)),
}


def values_of(name: str, kind: str) -> list[str | None]:
    """Return the hostile values for the parameter *name* of the type *kind*."""
    return (
        [None, "", "\x1b[2J\x9b1m", "'; drop table taskq.jobs; --", LONG]
        if name in _DIAGNOSTICS
        else HOSTILE[kind]
    )


def hostile(kind: str) -> st.SearchStrategy[str | None]:
    """Draw a value of the type *kind*: one of the list, or any other."""
    return st.sampled_from(HOSTILE[kind]) | _ARBITRARY[kind]


def _array(items: list[str | None] | list[int | None]) -> str:
    quoted = ("NULL" if each is None else json.dumps(str(each), ensure_ascii=False) for each in items)
    return "{" + ",".join(quoted) + "}"
