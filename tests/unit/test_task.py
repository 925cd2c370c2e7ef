"""The object that `@tq.task` puts in the place of a function."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from typing import Any

import pytest

from taskq_sync import ConfigError, EnqueueResult, InvalidInput, JobContext, JobOptions, JobRequest, TaskQ
from taskq_sync.task import ContextTask, Task

CONTEXT: Any = object()


class Recorder(TaskQ):
    """A client that sends nothing and remembers what it was to send."""

    def __init__(self) -> None:
        super().__init__("dbname=nowhere")
        self.sent: list[tuple[JobRequest, object | None, float | None]] = []

    def send(
        self, request: JobRequest, *, connection: object | None = None, timeout: float | None = None
    ) -> EnqueueResult:
        self.sent.append((request, connection, timeout))
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
