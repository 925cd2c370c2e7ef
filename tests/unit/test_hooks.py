"""The registration of hooks: what is refused, and what a function is afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from taskq_sync import AttemptEnd, ConfigError, JobContext, TaskQ, WorkerProcess
from taskq_sync.hooks import Hooks

KINDS = {
    "on_worker_start": ("worker_start", 1),
    "on_worker_stop": ("worker_stop", 1),
    "around_job": ("around", 1),
    "before_job": ("before", 1),
    "after_job": ("after", 2),
    "on_failure": ("failure", 2),
}


@pytest.fixture
def tq() -> TaskQ:
    return TaskQ("host=nowhere")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_is_kept_in_the_order_of_registration_and_stays_a_function(tq: TaskQ, kind: str) -> None:
    attribute, count = KINDS[kind]

    def make():
        return (lambda one: None) if count == 1 else (lambda one, two: None)

    first, second = make(), make()
    assert getattr(tq, kind)(first) is first
    assert getattr(tq, kind)(second) is second
    hooks = tq.registry.hooks
    assert [each.call for each in getattr(hooks, attribute)] == [first, second]
    assert hooks.of_jobs == (not kind.startswith("on_worker"))


def test_a_hook_is_named_by_its_module_and_function(tq: TaskQ) -> None:
    @tq.before_job
    def check(ctx: JobContext) -> None: ...

    [hook] = tq.registry.hooks.before
    assert str(hook) == f"before_job hook {__name__}.{check.__qualname__}"


def test_an_object_that_can_be_called_is_named_by_its_class(tq: TaskQ) -> None:
    class Counter:
        def __call__(self, ctx: JobContext, end: AttemptEnd) -> None: ...

    tq.after_job(Counter())
    [hook] = tq.registry.hooks.after
    assert str(hook).endswith(".Counter")


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_arguments_is_checked(tq: TaskQ, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind} hook .* cannot be called with"):
        getattr(tq, kind)(lambda: None)


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "around_job"])
def test_a_generator_that_would_never_run_is_refused(tq: TaskQ, kind: str) -> None:
    def hook(*arguments: object) -> Iterator[None]:
        yield

    with pytest.raises(ConfigError, match="would never run: make it a hook of around_job"):
        getattr(tq, kind)(hook)


@pytest.mark.parametrize("kind", KINDS)
def test_an_asynchronous_function_is_refused(tq: TaskQ, kind: str) -> None:
    async def hook(*arguments: object) -> None: ...

    with pytest.raises(ConfigError, match="asynchronous"):
        getattr(tq, kind)(hook)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be called"):
        Hooks().before_job("check")  # type: ignore[type-var]


def test_what_hides_its_parameters_is_taken_as_it_is(tq: TaskQ) -> None:
    tq.before_job(dict)  # type: ignore[arg-type]  # has no signature


def test_around_takes_generators_and_context_managers(tq: TaskQ) -> None:
    @tq.around_job
    def plain(ctx: JobContext) -> Iterator[None]:
        yield

    @tq.around_job
    @contextmanager
    def managed(ctx: JobContext) -> Iterator[None]:
        yield

    for hook in tq.registry.hooks.around:
        with hook.call(None):
            pass


def test_hooks_of_workers_cost_jobs_nothing(tq: TaskQ) -> None:
    @tq.on_worker_start
    def start(worker: WorkerProcess) -> None: ...

    assert not tq.registry.hooks.of_jobs
