"""The object that `@tq.task` puts in the place of a function."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypedDict

import pytest
from attrs import frozen

from taskq_sync import ConfigError, EnqueueResult, InvalidInput, JobContext, JobOptions, JobRequest, TaskQ
from taskq_sync.argument_key import argument_key
from taskq_sync.handler import Handler
from taskq_sync.registry import TaskSpec
from taskq_sync.task import ContextTask, Task

CONTEXT: Any = object()


class Recorder(TaskQ):
    """A client that sends nothing and remembers what it was to send."""

    def __init__(self) -> None:
        super().__init__("dbname=nowhere")
        self.sent: list[tuple[JobRequest, object | None, float | None]] = []
        self.blocks: list[object] = []

    def send(
        self,
        request: JobRequest,
        *,
        connection: object | None = None,
        timeout: float | None = None,
        block: float | timedelta | None = None,
    ) -> EnqueueResult:
        self.sent.append((request, connection, timeout))
        self.blocks.append(block)
        return EnqueueResult("created", len(self.sent))


tq = Recorder()


@tq.task(queue="mail", name="mail.welcome", max_attempts=8, priority=1)
def welcome(ctx: JobContext, user_id: int) -> tuple[object, int]:
    """Say hello."""
    return ctx, user_id


@tq.task
def plain(user_id: int, note: str = "") -> str:
    return f"{user_id}{note}"


@pytest.fixture(autouse=True)
def _forget() -> None:
    tq.sent.clear()
    tq.blocks.clear()


class TestStaysAFunction:
    def test_that_can_be_called(self) -> None:
        assert plain(7, note="!") == "7!"
        assert welcome(CONTEXT, user_id=7) == (CONTEXT, 7)

    def test_with_its_name_and_docstring(self) -> None:
        assert welcome.__name__ == "welcome"  # type: ignore[attr-defined]
        assert welcome.__doc__ == "Say hello."
        assert welcome.__module__ == __name__

    def test_that_pickles_by_its_name(self) -> None:
        assert pickle.loads(pickle.dumps(welcome)) is welcome

    def test_that_says_what_it_is(self) -> None:
        assert repr(welcome) == "<task mail.welcome on queue mail>"


def test_the_registry_knows_it_by_name_queue_and_options() -> None:
    spec = tq.registry.get("mail.welcome")

    assert spec is welcome.spec
    assert spec.queue == "mail"
    assert spec.options == JobOptions(max_attempts=8, priority=1)
    assert isinstance(welcome, ContextTask)


def test_without_settings_has_the_defaults() -> None:
    assert plain.spec.name == f"{__name__}.plain"
    assert plain.spec.queue == "default"
    assert isinstance(plain, Task)


def test_enqueue_sends_one_job() -> None:
    result = welcome.enqueue(user_id=7)

    assert result == EnqueueResult("created", 1)
    [(request, connection, timeout)] = tq.sent
    assert (request.queue, request.task) == ("mail", "mail.welcome")
    assert json.loads(request.payload_json) == {"user_id": 7}
    assert request.options == welcome.spec.options
    assert (connection, timeout) == (None, None)


def test_delay_is_enqueue() -> None:
    assert type(welcome).delay is type(welcome).enqueue

    welcome.delay(7)

    assert json.loads(tq.sent[0][0].payload_json) == {"user_id": 7}


class TestUsing:
    def test_puts_its_options_over_those_of_the_task(self) -> None:
        welcome.using(delay=60, priority=5, queue="fast", connection=CONTEXT, timeout=1.5).enqueue(user_id=7)

        [(request, connection, timeout)] = tq.sent
        assert request.queue == "fast"
        assert request.options == JobOptions(delay=60, priority=5, max_attempts=8)
        assert (connection, timeout) == (CONTEXT, 1.5)

    def test_leaves_the_task_as_it_was(self) -> None:
        welcome.using(delay=60)
        welcome.enqueue(user_id=7)

        assert tq.sent[0][0].options == welcome.spec.options

    def test_goes_over_an_earlier_using(self) -> None:
        sender = welcome.using(delay=60, connection=CONTEXT, queue="fast").using(delay=5, unique_key="u")
        sender.enqueue(7)

        [(request, connection, _)] = tq.sent
        assert request.options.delay == timedelta(seconds=5)
        assert request.options.unique_key == "u"
        assert (request.queue, connection) == ("fast", CONTEXT)

    def test_hands_over_how_long_to_wait_for_room(self) -> None:
        waiting = welcome.using(block=10)
        waiting.enqueue(user_id=7)
        waiting.using(block=timedelta(minutes=1)).enqueue(user_id=7)
        waiting.using(priority=1).enqueue(user_id=7)
        welcome.enqueue(user_id=7)

        assert tq.blocks == [10, timedelta(minutes=1), 10, None]

    def test_does_not_wait_for_room_in_a_transaction_of_the_callers(self) -> None:
        with pytest.raises(ConfigError, match="cannot wait for room"):
            welcome.using(block=10, connection=CONTEXT)
        with pytest.raises(ConfigError, match="cannot wait for room"):
            welcome.using(block=10).using(connection=CONTEXT)
        with pytest.raises(InvalidInput, match="block must not be negative"):
            welcome.using(block=-1)

    def test_refuses_bad_options_at_once(self) -> None:
        with pytest.raises(InvalidInput, match="priority must be"):
            welcome.using(priority=10**6)
        with pytest.raises(InvalidInput, match="queue must have"):
            welcome.using(queue="")
        with pytest.raises(TypeError, match="dely"):
            welcome.using(dely=60)  # type: ignore[call-arg]


class TestJob:
    def test_is_a_request_and_sends_nothing(self) -> None:
        request = welcome.using(unique_key="u").job(user_id=7)

        assert request.options.unique_key == "u"
        assert json.loads(request.payload_json) == {"user_id": 7}
        assert tq.sent == []

    def test_cannot_carry_a_connection(self) -> None:
        with pytest.raises(ConfigError, match="hand them to enqueue_many"):
            welcome.using(connection=CONTEXT).job(user_id=7)
        with pytest.raises(ConfigError, match="hand them to enqueue_many"):
            welcome.using(block=1).job(user_id=7)

    @pytest.mark.parametrize(
        "options", [{"unique_mode": "replace"}, {"unique_scope": "waiting"}, {"unique_for": 60}]
    )
    def test_cannot_say_how_a_key_counts_and_have_none(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=r"mail\.welcome has a unique_mode.* and no unique_key"):
            welcome.using(**options).job(user_id=7)

        assert welcome.using(unique_key="u", **options).job(user_id=7).options.unique_key == "u"


class TestDecorator:
    def test_refuses_a_name_that_is_taken(self) -> None:
        def other() -> None: ...

        with pytest.raises(ConfigError, match=r"'mail\.welcome' is taken"):
            tq.task(name="mail.welcome")(other)

    def test_refuses_unknown_settings(self) -> None:
        with pytest.raises(TypeError, match="quee"):
            tq.task(quee="mail")(lambda: None)  # type: ignore[call-overload]

    def test_refuses_bad_settings(self) -> None:
        with pytest.raises(InvalidInput, match="max_attempts must be 1 to"):
            tq.task(max_attempts=0)(lambda: None)


@frozen
class Order:
    id: int
    lines: list[str]


class Note(TypedDict):
    user_id: int
    text: str


@dataclass
class Report:
    month: str


class TestUnique:
    def key(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        return task.job(*args, **kwargs).options.unique_key

    def test_all_arguments_make_the_key(self) -> None:
        @tq.task(name="unique.all", unique=True)
        def sync(user_id: int, page: int = 1) -> None: ...

        key = self.key(sync, user_id=7, page=2)

        assert key == argument_key("unique.all", '{"user_id": 7, "page": 2}')
        assert self.key(sync, page=2, user_id=7) == self.key(sync, 7, 2) == key
        assert key not in (self.key(sync, user_id=7), self.key(sync, user_id=7, page=1))

    def test_those_that_count_make_the_key(self) -> None:
        @tq.task(name="unique.some", unique=["user_id"])
        def sync(ctx: JobContext, user_id: int, reason: str = "") -> None: ...

        assert self.key(sync, user_id=7, reason="a") == self.key(sync, user_id=7)
        assert self.key(sync, user_id=7) != self.key(sync, user_id=8)

    def test_the_members_of_a_record_make_the_key(self) -> None:
        @tq.task(name="unique.record", unique=("id",))
        def ship(order: Order) -> None: ...

        assert self.key(ship, Order(1, ["a"])) == self.key(ship, Order(1, []))
        assert self.key(ship, Order(1, ["a"])) != self.key(ship, Order(2, ["a"]))

    def test_the_call_may_give_another_key(self) -> None:
        @tq.task(name="unique.using", unique=True)
        def sync(user_id: int) -> None: ...

        assert self.key(sync.using(unique_key="mine"), user_id=7) == "mine"
        assert sync.using(unique_mode="replace").job(user_id=7).options.unique_mode == "replace"

    def test_false_is_no_key(self) -> None:
        @tq.task(name="unique.not", unique=False)
        def sync(user_id: int) -> None: ...

        assert self.key(sync, user_id=7) is None

    @pytest.mark.parametrize(
        ("function", "names"),
        [
            (lambda user_id, page: None, ("user",)),
            (lambda ctx, user_id: None, ("ctx",)),
            (lambda user_id: None, (7,)),
        ],
    )
    def test_a_name_that_is_no_argument_is_refused_at_decoration(self, function: Any, names: Any) -> None:
        with pytest.raises(ConfigError, match=r"unique of task 'unique\.bad' names .*, which is no argument"):
            tq.task(name="unique.bad", unique=names)(function)

    def test_a_name_that_is_no_member_is_refused_at_decoration(self) -> None:
        def ship(order: Order) -> None: ...
        def note(note: Note) -> None: ...
        def report(report: Report) -> None: ...

        for function in (ship, note, report):
            with pytest.raises(ConfigError, match="names 'order', which is no argument"):
                tq.task(name="unique.bad", unique=("order",))(function)
        tq.task(name="unique.note", unique=("user_id", "text"))(note)
        tq.task(name="unique.report", unique=("month",))(report)

    def test_names_need_to_know_whether_the_one_parameter_is_the_whole_payload(self) -> None:
        def ship(order: Later) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(ConfigError, match=r"the types of task 'unique\.later' cannot be resolved"):
            tq.task(name="unique.later", unique=("id",))(ship)

    def test_any_name_may_be_an_argument_of_a_function_that_takes_any(self) -> None:
        @tq.task(name="unique.any", unique=("user_id",))
        def sync(**rest: int) -> None: ...

        assert self.key(sync, user_id=7, page=1) == self.key(sync, user_id=7, page=2)

    @pytest.mark.parametrize("unique", ["user_id", (), 1, None])
    def test_what_names_nothing_is_refused(self, unique: Any) -> None:
        with pytest.raises(ConfigError, match="must be True or the names of arguments"):
            tq.task(name="unique.bad", unique=unique)(lambda user_id: None)

    def test_goes_not_together_with_a_key(self) -> None:
        with pytest.raises(ConfigError, match="both unique and unique_key"):
            tq.task(name="unique.bad", unique=True, unique_key="u")(lambda user_id: None)


class TestConcurrency:
    def key(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        return task.job(*args, **kwargs).options.concurrency_key

    def test_is_computed_from_the_members_of_the_payload(self) -> None:
        @tq.task(name="concurrency.user", concurrency=lambda user_id, **_: f"user:{user_id}")
        def sync(user_id: int, day: date = date(2026, 1, 1)) -> None: ...

        assert self.key(sync, 7) == "user:7"
        assert self.key(sync, user_id=8, day=date(2026, 2, 3)) == "user:8"
        assert self.key(sync.using(concurrency_key="mine"), user_id=7) == "mine"

    def test_sees_the_payload_and_not_the_arguments(self) -> None:
        seen: dict[str, object] = {}

        @tq.task(name="concurrency.payload", concurrency=lambda **members: seen.update(members))
        def sync(day: date, note: str = "") -> None: ...

        assert self.key(sync, date(2026, 2, 3)) is None
        assert seen == {"day": "2026-02-03"}

    def test_gets_the_members_of_a_record(self) -> None:
        @tq.task(name="concurrency.record", concurrency=lambda lines, **_: f"lines:{len(lines)}")
        def ship(order: Order) -> None: ...

        assert self.key(ship, Order(7, ["a"])) == "lines:1"

    def test_may_be_one_key_for_all(self) -> None:
        @tq.task(name="concurrency.one", concurrency="crm")
        def sync(user_id: int) -> None: ...

        assert self.key(sync, 7) == "crm"

    @pytest.mark.parametrize(
        ("returned", "message"),
        [
            (7, "must be a str, not 7"),
            ("", "must have 1 to 255 bytes, it has 0"),
            ("x" * 256, "must have 1 to 255 bytes, it has 256"),
            ("a\x00", r"'a\\x00' holds"),
        ],
    )
    def test_that_can_be_no_key_is_refused_with_the_name_of_the_task(
        self, returned: Any, message: str
    ) -> None:
        task = Task(
            TaskSpec(
                name="concurrency.bad",
                handler=Handler(lambda user_id: None, "concurrency.bad"),
                concurrency=lambda **_: returned,
            ),
            tq,
        )

        with pytest.raises(InvalidInput, match=f"concurrency of task 'concurrency.bad' returned {message}"):
            task.job(user_id=7)

    def test_that_raises_is_told_with_its_error(self) -> None:
        @tq.task(name="concurrency.raises", concurrency=lambda region, **_: region)
        def sync(user_id: int, region: str = "eu") -> None: ...

        with pytest.raises(
            InvalidInput, match=r"'concurrency\.raises' raised TypeError: .*region.*are not there"
        ) as caught:
            sync.enqueue(user_id=7)
        assert isinstance(caught.value.__cause__, TypeError)

    def test_refuses_what_is_no_key(self) -> None:
        with pytest.raises(InvalidInput, match=r"concurrency of task 'concurrency\.bad' must"):
            tq.task(name="concurrency.bad", concurrency="")(lambda: None)
        with pytest.raises(ConfigError, match="both concurrency and concurrency_key"):
            tq.task(name="concurrency.bad", concurrency="a", concurrency_key="b")(lambda: None)
