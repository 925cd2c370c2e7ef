"""The registry of tasks, and what a task says about exceptions."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from taskq_sync.errors import ConfigError, InvalidInput, UnknownTask
from taskq_sync.handler import Handler
from taskq_sync.registry import FailurePolicy, Registry, TaskSpec, default_name


def pack(box: int) -> None: ...


def ship(box: int) -> None: ...


def spec(function: Any = pack, name: str = "shop.pack", **settings: Any) -> TaskSpec:
    return TaskSpec(name=name, handler=Handler(function, name), **settings)


class TestRegistry:
    def test_finds_a_task_by_name_and_alias(self) -> None:
        registry = Registry()
        added = spec(aliases=["old.pack"])
        registry.add(added)

        assert registry.get("shop.pack") is registry.get("old.pack") is added
        assert registry.find("other") is None
        assert "old.pack" in registry
        assert [*registry] == [added]
        assert len(registry) == 1

    def test_says_what_there_is_when_a_name_is_unknown(self) -> None:
        registry = Registry()
        registry.add(spec())

        with pytest.raises(
            UnknownTask, match=r"no task 'shop.pakc': import its module; known are: shop\.pack"
        ):
            registry.get("shop.pakc")

    @pytest.mark.parametrize("other", [{"name": "shop.pack"}, {"name": "b", "aliases": ["shop.pack"]}])
    def test_refuses_a_second_function_under_a_name(self, other: dict[str, Any]) -> None:
        registry = Registry()
        registry.add(spec())

        with pytest.raises(
            ConfigError, match=r"'shop.pack' is taken by .*\.pack, so .*\.ship cannot have it"
        ):
            registry.add(spec(ship, **other))
        assert len(registry) == 1

    def test_lets_a_function_of_a_reloaded_module_replace_itself(self) -> None:
        registry = Registry()
        registry.add(spec())
        again = spec()
        registry.add(again)

        assert registry.get("shop.pack") is again

    def test_lists_its_queues(self) -> None:
        registry = Registry()
        registry.add(spec(queue="mail"))
        registry.add(spec(ship, name="b", queue="box"))

        assert registry.queues == ("box", "mail")

    def test_checks_the_types_of_all_tasks(self) -> None:
        def bad(kind: type) -> None: ...

        registry = Registry()
        registry.add(spec())
        registry.check()
        registry.add(spec(bad, name="bad"))

        with pytest.raises(ConfigError, match="parameter 'kind' of task 'bad'"):
            registry.check()


class TestSpec:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"name": ""}, "the name of a task must have"),
            ({"aliases": ["a\x00"]}, "the name of a task"),
            ({"queue": "q" * 121}, "the queue of task 'shop.pack'"),
            ({"result": "drop"}, "must be store or discard"),
            ({"retry_on": [int]}, "is no exception class"),
            ({"give_up_on": "ValueError"}, "is no exception class"),
            ({"retry_after": -1}, "retry_after of task 'shop.pack' must not be negative"),
            ({"payload_grace": "x"}, "payload_grace must be seconds"),
            ({"isolation": "fork"}, "isolation of task 'shop.pack' must be thread or process"),
            ({"isolation": "process", "interrupt": True}, "cannot have interrupt and run in a child process"),
            ({"isolation": "process", "memory_limit": 1000}, "must be a number of bytes, it is 1000"),
            ({"isolation": "process", "memory_limit": "1GB"}, "must be a number of bytes, it is '1GB'"),
            ({"memory_limit": 2**30}, "has a memory_limit and runs in a thread"),
        ],
    )
    def test_refuses_bad_settings_at_once(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises((ConfigError, InvalidInput), match=message):
            spec(**settings)

    def test_turns_a_payload_into_arguments_and_calls(self) -> None:
        seen = []
        made = spec(lambda box: seen.append(box))

        made.call(None, made.structure({"box": 7}))  # type: ignore[arg-type]

        assert seen == [7]
        assert not made.wants_context


class TestPolicy:
    def test_retries_every_exception_by_default(self) -> None:
        assert spec().policy(ValueError()) == FailurePolicy(retryable=True, after=None)

    def test_gives_up_on_what_is_named_and_its_subclasses(self) -> None:
        made = spec(give_up_on=LookupError)

        assert not made.policy(KeyError()).retryable
        assert made.policy(ValueError()).retryable

    def test_retries_only_what_is_named(self) -> None:
        made = spec(retry_on=(OSError, ValueError))

        assert made.policy(TimeoutError()).retryable
        assert not made.policy(KeyError()).retryable

    def test_nothing_named_means_nothing_is_retried(self) -> None:
        assert not spec(retry_on=()).policy(ValueError()).retryable

    def test_giving_up_goes_first(self) -> None:
        assert not spec(retry_on=OSError, give_up_on=TimeoutError).policy(TimeoutError()).retryable

    @pytest.mark.parametrize(
        ("retry_after", "after"),
        [
            (30, timedelta(seconds=30)),
            (timedelta(minutes=1), timedelta(minutes=1)),
            (lambda error: error.args[0], timedelta(seconds=7)),
            (lambda error: None, None),
            (lambda error: error.missing, None),
            (lambda error: "soon", None),
            (lambda error: float("nan"), None),
        ],
    )
    def test_takes_the_pause_from_a_value_or_the_exception(
        self, retry_after: Any, after: timedelta | None
    ) -> None:
        assert spec(retry_after=retry_after).policy(ValueError(7)) == FailurePolicy(True, after)


class TestDefaultName:
    def test_is_module_and_function(self) -> None:
        assert default_name(pack) == f"{__name__}.pack"

    @pytest.mark.parametrize(
        ("main", "name"),
        [
            (SimpleNamespace(__spec__=SimpleNamespace(name="shop.jobs"), __file__="x"), "shop.jobs.pack"),
            (SimpleNamespace(__spec__=SimpleNamespace(name="shop.__main__")), "shop.pack"),
            (SimpleNamespace(__spec__=None, __file__="/srv/jobs.py"), "jobs.pack"),
            (SimpleNamespace(__spec__=None), "__main__.pack"),
        ],
    )
    def test_of_a_script_is_what_a_worker_imports_it_as(
        self, monkeypatch: pytest.MonkeyPatch, main: Any, name: str
    ) -> None:
        monkeypatch.setitem(sys.modules, "__main__", main)
        function = SimpleNamespace(__module__="__main__", __qualname__="pack")

        assert default_name(function) == name  # type: ignore[arg-type]
