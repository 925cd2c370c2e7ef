"""Values to JSON and back: the table of `codec`, line by line, and what is refused."""

# Scenarios B60, B62.

from __future__ import annotations

import enum
from collections import OrderedDict, namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID

import pytest
from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from taskq_sync import codec, jsontext
from taskq_sync.codec import TypeCodec
from taskq_sync.errors import ConfigError, PayloadError
from taskq_sync.model import JsonValue

UTC_TIME = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=timezone.utc)
INDIA = timezone(timedelta(hours=5, minutes=30))


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Kind(str, enum.Enum):
    A = "a"


@frozen
class Item:
    price: float
    tags: list[str] = field(factory=list)


@define(eq=False)
class Basket:
    items: list[Item]
    bought: datetime | None = None


@dataclass
class Point:
    x: int
    y: int = 0
    cached: int = dataclass_field(default=0, compare=False, init=False)


class Row(TypedDict):
    name: str


Pair = namedtuple("Pair", "a b")


def through(value: object, declared: object) -> object:
    """Write and read as a payload does; raise `PayloadError` where it would."""
    typed = TypeCodec(declared, "x")
    text = jsontext.write(typed.to_plain(value, "$"), "value")
    restored = typed.structure(codec.from_json(text), "$")
    difference = codec.find_difference(value, restored, "$")
    if difference is not None:
        raise PayloadError("changed", path=difference)
    return restored


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (True, bool),
        (7, int),
        (2**63 + 1, int),
        (-(10**4000), int),
        (1e22, float),
        (5e-324, float),
        ("é🐘", str),
        (None, int | None),
        (UTC_TIME, datetime),
        (UTC_TIME.astimezone(INDIA), datetime),
        (date(2026, 2, 3), date),
        (time(4, 5, 6, 7), time),
        (timedelta(days=40_000, microseconds=1), timedelta),
        (timedelta(hours=1), timedelta),
        (Decimal("0.10"), Decimal),
        (Decimal("1E+400"), Decimal),
        (UUID(int=7), UUID),
        (Colour.RED, Colour),
        (Level.LOW, Level),
        (Kind.A, Kind),
        (b"\x00\xff", bytes),
        ([1, 2], list[int]),
        ((1, "a"), tuple[int, str]),
        ((1, 2, 3), tuple[int, ...]),
        ((1, [2]), tuple),
        ({"a": [Decimal(1)]}, dict[str, list[Decimal]]),
        ({Kind.A: 1}, dict[Kind, int]),
        ("a", Literal["a", "b"]),
        ("x", int | str),
        (7, int | str | None),
        (Item(1.5, ["new"]), Item),
        (Basket([Item(2.0)], UTC_TIME), Basket),
        (Point(1, 2), Point),
        ({"name": "x"}, Row),
        ([1, [2.5, None, {"a": True}]], Any),
        ({"a": 1e22}, dict),
        ({"a": 1e22}, JsonValue),
        ("x", object),
    ],
    ids=str,
)
def test_comes_back_as_it_was(value: object, declared: object) -> None:
    restored = through(value, declared)

    assert type(restored) is type(value)
    if not isinstance(value, Basket):
        assert restored == value


def test_a_sequence_comes_back_as_a_tuple() -> None:
    assert through([1, 2], Sequence[int]) == through((1, 2), Sequence[int]) == (1, 2)


def test_an_int_for_a_float_comes_back_as_a_float() -> None:
    assert repr(through(3, float)) == "3.0"


def test_a_mapping_comes_back_as_a_dict() -> None:
    assert through({"a": 1}, Mapping[str, int]) == {"a": 1}


@pytest.mark.parametrize(
    ("value", "declared", "path"),
    [
        ({1, 2}, set[int], "$"),
        (frozenset("a"), Any, "$"),
        ((1, 2), Any, "$"),
        ({"a": [(1, 2)]}, Any, "$.a[0]"),
        ((1, 2), list[int], "$"),
        (Pair(1, 2), Any, "$"),
        (OrderedDict(a=1), dict[str, int], "$"),
        ({1: "a"}, dict[int, str], '$["1"]'),
        (UTC_TIME, Any, "$"),
        ({"when": [UTC_TIME]}, dict, "$.when[0]"),
        (datetime(2026, 2, 3), datetime, "$"),
        (Basket([], datetime(2026, 2, 3)), Basket, "$.bought"),
        (UTC_TIME, date, "$"),
        (UTC_TIME, datetime | str, "$"),
        (time(1, tzinfo=timezone.utc), time, "$"),
        (timedelta(days=10**8, microseconds=1), timedelta, "$"),
        (Decimal("NaN"), Decimal, "$"),
        (Colour.RED, Any, "$"),
        (Level.LOW, Any, "$"),
        (Kind.A, str, "$"),
        (b"x", Any, "$"),
        (True, int, "$"),
        (1, bool, "$"),
        ("7", int, "$"),
        (7, str, "$"),
        (7.0, int, "$"),
        ("c", Literal["a", "b"], "$"),
        ("ab", list[str], "$"),
        (Item("1"), Item, "$.price"),
        ([Item(1.0), Item(1.0, ["a", 7])], list[Item], "$[1].tags[1]"),
        (7, Item, "$"),
        ({"name": "x", "nmae": "y"}, Row, "$"),
        (float("nan"), float, "$"),
    ],
    ids=str,
)
def test_is_refused_at_its_path(value: object, declared: object, path: str) -> None:
    with pytest.raises(PayloadError) as caught:
        through(value, declared)

    assert caught.value.path == path


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_stays_the_float_it_was(value: float) -> None:
    assert repr(through(value, Any)) == repr(value)


@given(st.datetimes(timezones=st.timezones()))
def test_every_aware_datetime_stays_the_instant_it_was(value: datetime) -> None:
    restored = through(value, datetime)

    assert isinstance(restored, datetime)
    assert restored.isoformat() == value.isoformat()


class RepeatedHour(tzinfo):
    """A zone whose every hour comes twice, as one does in autumn."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=2 - (when.fold if when else 0))


@pytest.mark.parametrize("fold", [0, 1])
def test_an_instant_in_the_repeated_hour_comes_back(fold: int) -> None:
    value = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=RepeatedHour())

    restored = through(value, datetime)

    assert isinstance(restored, datetime)
    assert restored.utcoffset() == timedelta(hours=2 - fold)


class TestReadsFromOtherProducers:
    def test_an_instant_in_zulu_time(self) -> None:
        assert TypeCodec(datetime, "x").structure("2026-02-03T04:05:06.789012Z", "$") == UTC_TIME

    @pytest.mark.parametrize(
        ("plain", "declared", "message"),
        [
            ("7", int, "expected int, got str at $"),
            (3.7, int, "expected int, got float at $"),
            (1, bool, "expected bool, got int at $"),
            (True, float, "expected float, got bool at $"),
            ("2026-02-03T04:05:06", datetime, "expected an aware datetime, got '2026-02-03T04:05:06' at $"),
            (7, datetime, "expected an aware datetime as a string, got int at $"),
            ("x", Decimal, "expected a decimal number, got 'x' at $"),
            ("a b", bytes, "expected base64, got 'a b' at $"),
            ("1", timedelta, "expected a number of seconds, got str at $"),
            (1e300, timedelta, "expected a number of seconds, got 1e+300 at $"),
            ("ab", list[str], "expected a list, got str at $"),
            ("ab", tuple[str, ...], "expected a list, got str at $"),
            ("ab", Sequence[str], "expected a list, got str at $"),
            ([1], Item, "expected an object, got list at $"),
            ({"tags": []}, Item, "member 'price' is missing at $.price"),
            ({"price": 1, "prize": 2}, Item, "unknown member 'prize' at $"),
            ({"items": [{"price": "1"}]}, Basket, "expected float, got str at $.items[0].price"),
            ({"items": [7]}, Basket, "not of type Item at $.items[0]"),
            ("blue", Colour, "ValueError: 'blue' is not a valid Colour at $"),
        ],
    )
    def test_and_refuses_what_is_not_of_the_type(self, plain: object, declared: object, message: str) -> None:
        with pytest.raises(PayloadError) as caught:
            TypeCodec(declared, "x").structure(plain, "$")

        assert str(caught.value) == message


class TestResult:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"n": (1, Colour.RED)}, '{"n": [1, "red"]}'),
            (Item(1.0), '{"price": 1.0, "tags": []}'),
            ([Point(1)], '[{"x": 1, "y": 0}]'),
            ({"at": UTC_TIME}, '{"at": "2026-02-03T04:05:06.789012+00:00"}'),
            (None, "null"),
        ],
    )
    def test_is_written_as_its_own_type_says(self, value: object, text: str) -> None:
        assert codec.to_json(value, "result") == text

    def test_names_what_and_where(self) -> None:
        with pytest.raises(
            PayloadError, match=r"^result cannot be stored as JSON: nan is no JSON value at \$\[0\]$"
        ):
            codec.to_json([float("nan")], "result")

    def test_an_object_that_raises_when_looked_at_is_refused(self) -> None:
        class Lazy:
            @property
            def __class__(self) -> type:  # type: ignore[override]
                raise RuntimeError("the session is closed")

            def __repr__(self) -> str:
                raise RuntimeError

        with pytest.raises(PayloadError, match="result cannot be stored"):
            codec.to_json({"row": Lazy()}, "result")

    def test_an_endless_object_is_refused(self) -> None:
        value: list[Any] = []
        value.append(value)

        with pytest.raises(PayloadError, match="RecursionError"):
            codec.to_json(value, "result")


def test_reading_an_int_of_too_many_digits_is_a_payload_error() -> None:
    with pytest.raises(PayloadError, match="cannot be read"):
        codec.from_json("1" * 5000)


class TestATypeCodec:
    def test_accepts_the_types_of_the_table(self) -> None:
        for declared in (int, datetime, list[Item], Basket, Row, Any, Colour | None, dict[str, Any]):
            TypeCodec(declared, "parameter 'x'")

    @pytest.mark.parametrize("declared", [type, open, "Item"])
    def test_refuses_what_cannot_be_restored(self, declared: object) -> None:
        with pytest.raises(ConfigError, match="parameter 'x' cannot be restored from JSON"):
            TypeCodec(declared, "parameter 'x'")


def test_knows_the_types_that_stand_for_a_whole_payload() -> None:
    assert all(map(codec.is_record, (Item, Basket, Point, Row)))
    assert not any(map(codec.is_record, (int, dict, list[Item], Item | None, Any, Colour)))
