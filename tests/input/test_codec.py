"""Values of any kind: what can be stored comes back as it was, all else is a `PayloadError` before SQL."""

# Scenarios B59, B64.

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID

import attrs
import hypothesis.strategies as st
import psycopg
import pytest
from attrs import frozen
from hypothesis import example, given

from input.examples import few, many
from kit.contract import Connection
from taskq_sync import codec, jsontext
from taskq_sync.argument_key import argument_key
from taskq_sync.codec import TypeCodec
from taskq_sync.db.connections import PsycopgExecutor
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.statements import Statements
from taskq_sync.errors import InvalidInput, PayloadError
from taskq_sync.handler import MAX_PAYLOAD_BYTES, Handler
from taskq_sync.model import ClaimedJob, Verdict
from taskq_sync.options import JobOptions


class Word(str):
    """A text that is more than one."""


class Number(int):
    """A number that is more than one."""


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = "red"
    NONE = None


class Odd:
    """Cannot be compared or hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")


@frozen
class Item:
    price: Decimal
    tags: list[str] = attrs.Factory(list)


class Row(TypedDict):
    name: str


#: With NUL and lone surrogates.
_texts = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["\x00", "\ud800", "a\udcff", "\U0010ffff", ""]
)
_numbers = (
    st.integers()
    | st.floats()
    | st.sampled_from([2**53 + 1, -(2**63) - 1, 10**400, 5e-324, 1.7976931348623157e308, -0.0])
)
_instants = st.datetimes(timezones=st.none() | st.timezones()) | st.sampled_from(
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=3, seconds=7, microseconds=9))),
    ]
)
_decimals = st.decimals() | st.sampled_from(
    [Decimal("sNaN"), Decimal("-0"), Decimal("1E+999999"), Decimal("0.10")]
)
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    _numbers,
    _texts,
    _texts.map(Word),
    st.integers().map(Number),
    st.binary(max_size=9),
    _instants,
    st.dates(),
    st.times(timezones=st.none() | st.timezones()),
    st.timedeltas(),
    _decimals,
    st.uuids(),
    st.sampled_from(
        [Level.LOW, Colour.RED, Colour.NONE, Odd(), Odd, object(), {1}, frozenset("a"), 1j, ..., range(3)]
    ),
    st.builds(Item, _decimals, st.lists(_texts, max_size=2)),
)
ANYTHING = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(_texts, inner, max_size=3),
        st.dictionaries(st.integers() | st.none() | _texts.map(Word), inner, max_size=2),
        st.dictionaries(_texts, inner, max_size=2).map(OrderedDict),
    ),
    max_leaves=8,
)
TYPES: list[Any] = [
    *[bool, int, float, str, datetime, date, time, timedelta, Decimal, UUID, bytes, Colour, Level, Item, Row],
    *[list, dict, object, Any, list[int], list[Any], dict[str, Any], dict[str, Decimal], tuple[int, str]],
    *[
        tuple[Decimal, ...],
        Sequence[datetime],
        Literal["a", 1],
        int | None,
        int | str,
        datetime | None,
        Item | None,
    ],
    *[list[Item], dict[str, list[float]], str | int | float | bool | None],
]


@many
@given(ANYTHING)
@example({"a": "x" * 100_000})
def test_a_result_is_json_of_postgresql_or_a_payload_error(conn: Connection, value: object) -> None:
    try:
        text = codec.to_json(value, "result")
    except PayloadError as error:
        assert str(error).startswith("result cannot be stored as JSON: ")
        assert error.path.startswith("$")
        return
    [(stored, size)] = conn.execute(
        "select v::text, octet_length(v::text) from (select %s::jsonb as v) t", (text,)
    ).fetchall()
    # the size that Python goes by is that of the database, which has no -0
    assert len(text.encode()) - text.count("-0.0") <= size <= len(text.encode())
    assert codec.from_json(stored) == codec.from_json(text)


@many
@given(ANYTHING, st.sampled_from(TYPES))
@example(Decimal("sNaN"), Decimal)
@example([Item(Decimal("sNaN"))], list[Item])
def test_a_value_comes_back_as_it_was_or_is_refused(value: object, declared: Any) -> None:
    typed = TypeCodec(declared, "x")
    try:
        text = jsontext.write(typed.to_plain(value, "$"), "value")
        restored = typed.structure(codec.from_json(text), "$")
        difference = codec.find_difference(value, restored, "$")
    except PayloadError as error:
        assert error.path.startswith("$")
        return
    if difference is None and not isinstance(value, Item | list | dict | tuple):
        assert restored == value or (isinstance(value, datetime) and repr(restored) != repr(value))


#: JSON as any producer may have stored it.
JSON_TEXTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
).map(json.dumps) | st.sampled_from(
    ["9" * 5_000, "1" + "0" * 400 + ".5", "-1" + "0" * 400 + ".25", "0." + "0" * 400 + "1", "[" * 5_000 + "]" * 5_000]
)  # fmt: skip


@many
@given(JSON_TEXTS, st.sampled_from(TYPES))
def test_what_others_have_stored_is_read_or_refused(text: str, declared: Any) -> None:
    try:
        plain = codec.from_json(text)
        value = TypeCodec(declared, "x").structure(plain, "$")
    except PayloadError as error:
        assert error.path.startswith("$")
        return
    assert value is None or not (isinstance(value, float) and math.isinf(value))


@few
@given(st.dictionaries(st.sampled_from("abc") | _texts, ANYTHING, max_size=4))
def test_a_call_is_written_within_the_cap_or_refused(arguments: dict[str, object]) -> None:
    def function(a: Any, b: list[str] | None = None, **rest: Any) -> None: ...

    handler = Handler(function, "t")
    try:
        text = handler.dump((), arguments)
    except PayloadError:
        return
    assert len(text.encode()) <= MAX_PAYLOAD_BYTES
    assert handler.load(codec.from_json(text)).keys() == arguments.keys()


@pytest.mark.parametrize("character", ["x", "é", "🐘", "\\", "\x01"])
def test_a_payload_is_measured_as_the_database_measures_it(conn: Connection, character: str) -> None:
    """At the cap it is taken by both, one more character and both refuse it."""

    def function(text: str) -> None: ...

    one = len(jsontext.write(character, "x").encode()) - 2
    number = (MAX_PAYLOAD_BYTES - len('{"text": ""}')) // one
    rest = "x" * (MAX_PAYLOAD_BYTES - len('{"text": ""}') - number * one)
    handler = Handler(function, "t")
    conn.execute(
        "select taskq.enqueue('q', 't', %s)", (handler.dump((), {"text": character * number + rest}),)
    )
    over = character * number + rest + "x"
    with pytest.raises(PayloadError, match="the cap is 65536"):
        handler.dump((), {"text": over})
    with pytest.raises(psycopg.Error, match="a payload of 65537 bytes"):
        conn.execute("select taskq.enqueue('q', 't', %s)", (jsontext.write({"text": over}, "payload"),))


@few
@given(st.lists(JSON_TEXTS.filter(lambda text: len(text) < 1_000 or text[0] != "["), min_size=2, max_size=2))
@example(["0", "-0.0"])
@example(["1", "1.0"])
@example(["1" + "0" * 400 + ".5", "1" + "0" * 400 + ".50"])
def test_two_payloads_have_one_key_exactly_when_the_database_takes_them_for_one(
    conn: Connection, texts: list[str]
) -> None:
    stored = []
    for text in texts:
        try:
            stored.append(str(conn.execute("select %s::jsonb::text", (text,)).fetchall()[0][0]))
        except psycopg.errors.DataError:  # \u0000
            return
    keys = {argument_key("t", f'{{"a": {text}}}') for text in stored}
    [(same,)] = conn.execute("select %s::jsonb = %s::jsonb", stored).fetchall()

    assert (len(keys) == 1) == same


@few
@given(_texts, st.sampled_from(["fail", "snooze", "release", "cancel"]))
@example("\x00\ud800" * 50_000, "fail")
def test_a_verdict_may_say_anything(conn: Connection, text: str, verb: str) -> None:
    verdict = {
        "fail": lambda: Verdict.fail(1, 2, error=text),
        "snooze": lambda: Verdict.snooze(1, 2, delay=timedelta(1), reason=text),
        "release": lambda: Verdict.release(1, 2, cause=text),
        "cancel": lambda: Verdict.cancel(1, 2, reason=text),
    }[verb]()
    [(result,)] = conn.execute(
        "select result from taskq.settle('w', %s)", (f"[{verdict.document()}]",)
    ).fetchall()

    assert result == "lost"  # there is no such attempt: the document was read


_options = st.sampled_from([each.name for each in attrs.fields(JobOptions)])


@many
@given(_options, ANYTHING | st.floats() | st.timedeltas() | _instants)
@example("headers", {"a": Odd()})
def test_an_option_is_refused_or_taken_by_the_database_too(conn: Connection, name: str, value: Any) -> None:
    company: dict[str, Any] = {"unique_key": "u"} if name.startswith("unique_") else {}
    if name == "ordered":
        company = {"concurrency_key": "k"}
    try:
        options = JobOptions(**{**company, name: value})
        with conn.transaction(force_rollback=True):
            Jobs(Statements()).enqueue(PsycopgExecutor(conn), "q", "t", "{}", options)
    except (InvalidInput, PayloadError) as error:
        assert len(str(error)) < 1_000


def _claimed(payload: str) -> ClaimedJob:
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return ClaimedJob(
        *(1, 2, "q", "t", payload, payload, payload),
        *(0, 1, 0, 5, 0, moment, moment, timedelta(60), moment, None),
    )


@pytest.mark.parametrize("text", ["[" * 50_000 + "]" * 50_000, "9" * 5_000, "1" + "0" * 400 + ".5"])
def test_what_python_cannot_read_is_a_payload_error_wherever_it_is_read(text: str) -> None:
    for name in ("payload", "headers", "progress"):
        with pytest.raises(PayloadError, match="cannot be read"):
            getattr(_claimed(text), name)
