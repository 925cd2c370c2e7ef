"""A task's function: what its parameters say about the payload, and how it is called with one."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, TypedDict, cast

import pytest
from attrs import frozen

from taskq_sync.context import JobContext
from taskq_sync.errors import ConfigError, PayloadError
from taskq_sync.handler import MAX_PAYLOAD_BYTES, Handler

if TYPE_CHECKING:
    from decimal import Decimal

CONTEXT = cast(JobContext, object())


@frozen
class Order:
    id: int
    day: date | None = None


@dataclass
class Point:
    x: int


class Row(TypedDict):
    name: str


def handler(function: Any) -> Handler:
    return Handler(function, "shop.pack")


def plain(user_id: int, day: date | None = None, *, urgent: bool = False) -> object:
    return user_id, day, urgent


class TestKeywords:
    def test_are_the_members_of_the_payload(self) -> None:
        payload = handler(plain).dump((7,), {"urgent": True})

        assert json.loads(payload) == {"user_id": 7, "urgent": True}

    def test_that_were_left_out_are_left_to_the_handler(self) -> None:
        made = handler(plain)

        assert made.call(CONTEXT, made.load({"user_id": 7})) == (7, None, False)

    def test_come_back_as_their_types(self) -> None:
        made = handler(plain)

        assert made.load(json.loads(made.dump((7, date(2026, 2, 3)), {}))) == {
            "user_id": 7,
            "day": date(2026, 2, 3),
        }

    def test_without_a_type_are_json_values(self) -> None:
        def untyped(data, n=1):  # type: ignore[no-untyped-def]
            return data

        made = handler(untyped)

        assert made.load(json.loads(made.dump(({"a": [1.5]},), {}))) == {"data": {"a": [1.5]}}
        with pytest.raises(PayloadError, match=r"would come back changed at \$\.data"):
            made.dump(((1, 2),), {})

    def test_of_any_name_are_taken_by_double_star(self) -> None:
        def tags(user_id: int, **rest: int) -> None: ...

        made = handler(tags)

        assert json.loads(made.dump((7,), {"a": 1, "b": 2})) == {"user_id": 7, "a": 1, "b": 2}
        assert made.load({"user_id": 7, "c": 3}) == {"user_id": 7, "c": 3}
        with pytest.raises(PayloadError, match=r"expected int, got str at \$\.c"):
            made.load({"user_id": 7, "c": "x"})


@pytest.mark.parametrize(
    ("function", "value", "payload"),
    [
        (lambda order: None, Order(7, date(2026, 2, 3)), {"id": 7, "day": "2026-02-03"}),
        (lambda order: None, Point(3), {"x": 3}),
        (lambda order: None, {"name": "x"}, {"name": "x"}),
    ],
)
def test_one_record_is_the_whole_payload(function: Any, value: object, payload: object) -> None:
    function.__annotations__["order"] = Row if isinstance(value, dict) else type(value)
    made = handler(function)

    assert json.loads(made.dump((value,), {})) == payload
    assert json.loads(made.dump((), {"order": value})) == payload
    assert made.load(cast(Any, payload)) == {"order": value}


def test_a_record_among_others_is_a_member() -> None:
    def pack(order: Order, box: int) -> None: ...

    assert json.loads(handler(pack).dump((Order(7), 1), {})) == {"order": {"id": 7, "day": None}, "box": 1}


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "shop.pack cannot be called so: missing a required argument: 'user_id'"),
        ((1, 2, 3, 4), {}, "too many positional arguments"),
        ((7,), {"usr": 1}, "got an unexpected keyword argument 'usr'"),
        (("7",), {}, r"expected int, got str at \$\.user_id"),
        ((float("nan"),), {}, r"nan is no JSON value at \$\.user_id"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    args: tuple[object, ...], kwargs: dict[str, object], message: str
) -> None:
    with pytest.raises(PayloadError, match=message):
        handler(plain).dump(args, kwargs)


@pytest.mark.parametrize(
    ("payload", "path", "message"),
    [
        ([1], "$", "the payload of shop.pack is no object"),
        ({}, "$.user_id", "shop.pack needs 'user_id'"),
        ({"user_id": 7, "usr": 1}, "$.usr", "shop.pack has no parameter 'usr'"),
        ({"user_id": "7"}, "$.user_id", "expected int, got str"),
        ({"user_id": True}, "$.user_id", "expected int, got bool"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_at_its_path(payload: Any, path: str, message: str) -> None:
    with pytest.raises(PayloadError, match=message) as caught:
        handler(plain).load(payload)

    assert caught.value.path == path


def test_the_size_is_that_of_jsonb_as_text() -> None:
    def keep(text: str) -> None: ...

    made = handler(keep)
    frame = len('{"text": ""}')

    assert len(made.dump(("é" * ((MAX_PAYLOAD_BYTES - frame) // 2),), {}).encode()) == MAX_PAYLOAD_BYTES
    with pytest.raises(PayloadError, match="has 65537 bytes, the cap is 65536"):
        made.dump(("x" * (MAX_PAYLOAD_BYTES - frame + 1),), {})


class TestContext:
    def test_comes_first_where_the_function_wants_it(self) -> None:
        def pack(ctx: JobContext, user_id: int) -> object:
            return ctx, user_id

        made = handler(pack)

        assert made.wants_context
        assert json.loads(made.dump((7,), {})) == {"user_id": 7}
        assert made.call(CONTEXT, {"user_id": 7}) == (CONTEXT, 7)

    def test_is_known_by_its_name_where_nothing_is_declared(self) -> None:
        def pack(ctx, user_id):  # type: ignore[no-untyped-def]
            ...

        assert handler(pack).wants_context

    def test_is_known_by_its_type_whatever_its_name(self) -> None:
        def by_object(job) -> None: ...  # type: ignore[no-untyped-def]

        by_object.__annotations__["job"] = JobContext

        def other(ctx: int) -> None: ...

        assert handler(by_object).wants_context
        assert not handler(other).wants_context

    def test_may_be_imported_for_type_checkers_only(self) -> None:
        namespace: dict[str, Any] = {}
        exec(
            "from __future__ import annotations\n"
            "def pack(ctx: JobContext, n: int) -> Complete | Snooze: ...\n"
            "def dotted(c: taskq_sync.JobContext, n: int) -> None: ...\n",
            namespace,
        )

        assert handler(namespace["pack"]).load({"n": 1}) == {"n": 1}
        assert handler(namespace["dotted"]).load({"n": 1}) == {"n": 1}

    def test_is_all_that_a_function_may_want(self) -> None:
        def tick(ctx: JobContext) -> None: ...

        assert handler(tick).dump((), {}) == "{}"


class TestRefusesAtOnce:
    def test_a_coroutine_function(self) -> None:
        async def pack() -> None: ...

        with pytest.raises(ConfigError, match="is a coroutine function"):
            handler(pack)

    def test_parameters_that_have_no_name(self) -> None:
        def star(*ids: int) -> None: ...

        def positional(user_id: int, /) -> None: ...

        for function in (star, positional):
            with pytest.raises(ConfigError, match="by name"):
                handler(function)


class TestRefusesAtFirstUse:
    def test_a_type_that_cannot_be_resolved(self) -> None:
        def pack(price: Decimal) -> None: ...

        with pytest.raises(ConfigError, match=r"cannot be resolved.*outside `if TYPE_CHECKING:`"):
            handler(pack).dump((1,), {})

    def test_a_type_that_cannot_be_restored(self) -> None:
        def pack(kind: type) -> None: ...

        with pytest.raises(ConfigError, match=r"parameter 'kind' of task 'shop\.pack' cannot be restored"):
            handler(pack).shape()


def test_a_wrapped_function_keeps_its_types() -> None:
    @functools.wraps(plain)
    def logged(*args: Any, **kwargs: Any) -> object:
        return plain(*args, **kwargs)

    made = handler(logged)

    assert made.load({"user_id": 7, "day": "2026-02-03"})["day"] == date(2026, 2, 3)
    assert made.call(CONTEXT, {"user_id": 7}) == (7, None, False)
