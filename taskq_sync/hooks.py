"""What a program may have run around its jobs and its workers.

::

    @tq.on_worker_start
    def open_exporter(worker: WorkerProcess) -> None: ...

    @tq.around_job
    def trace(ctx: JobContext) -> Iterator[None]:
        with tracer.start_as_current_span(ctx.job.task):
            yield

    @tq.after_job
    def count(ctx: JobContext, end: AttemptEnd) -> None:
        ended.labels(ctx.job.task, end.verb).inc()

What begins runs in the order of registration, what ends in the reverse::

    on_worker_start
        around_job, up to its yield
            before_job
                the handler
            on_failure
            after_job
        around_job, from its yield on
    on_worker_stop

Here hooks are only kept; `taskq_sync.worker.hooks` runs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any, Protocol, TypeVar

from attrs import field, frozen

from taskq_sync.context import JobContext
from taskq_sync.errors import ConfigError

EventType = TypeVar("EventType")


class EventSource(Protocol):
    """Where observers of a worker's events subscribe; see `taskq_sync.worker.events`."""

    def subscribe(self, kind: type[EventType], observer: Callable[[EventType], None]) -> None:
        """Call *observer* with every event of this *kind*."""
        ...


@frozen(kw_only=True)
class WorkerProcess:
    """The process that a hook runs in, for `on_worker_start` and `on_worker_stop`."""

    worker_id: str
    """The worker; its child processes have the same one."""

    is_child: bool
    """Whether this is a child process, in which the worker runs isolated jobs."""

    events: EventSource = field(repr=False)
    """Where to subscribe to events, in `on_worker_start`. In a child process none occur: the worker has them."""


@frozen(kw_only=True)
class AttemptEnd:
    """How an attempt has ended, for `after_job`."""

    verb: str
    """What the database is asked to do: `complete`, `fail`, `snooze`, `cancel`, `release`. Or `lost`, when it has
    said that the job belongs to somebody else by now."""

    value: object = field(repr=False)
    """What the handler returned; None when it raised something."""

    error: BaseException | None
    """What the handler, or a hook before it, raised, an outcome too; None when it returned."""

    seconds: float
    """How long it took."""


WorkerHook = TypeVar("WorkerHook", bound=Callable[[WorkerProcess], object])
BeforeHook = TypeVar("BeforeHook", bound=Callable[[JobContext], object])
AfterHook = TypeVar("AfterHook", bound=Callable[[JobContext, AttemptEnd], object])
FailureHook = TypeVar("FailureHook", bound=Callable[[JobContext, BaseException], object])
AroundHook = TypeVar(
    "AroundHook", bound=Callable[[JobContext], Iterator[None] | AbstractContextManager[object]]
)


@frozen
class Hook:
    """One registered function."""

    kind: str
    call: Callable[..., Any] = field(repr=False)
    place: str

    def __str__(self) -> str:
        return f"{self.kind} hook {self.place}"


class Hooks:
    """The hooks of a program by their kind, each in the order of registration. May be used by threads.

    The tuples are replaced as a whole, so that readers need no lock.
    """

    def __init__(self) -> None:
        """Start without hooks."""
        self._lock = Lock()  # held to replace a tuple
        self.worker_start: tuple[Hook, ...] = ()
        self.worker_stop: tuple[Hook, ...] = ()
        self.around: tuple[Hook, ...] = ()
        self.before: tuple[Hook, ...] = ()
        self.after: tuple[Hook, ...] = ()
        self.failure: tuple[Hook, ...] = ()
        self.of_jobs = False
        """Whether there are any that run with a job."""

    def on_worker_start(self, function: WorkerHook) -> WorkerHook:
        """Add a hook and return it; raises `ConfigError`, as all here do, for what cannot be one."""
        hook = _hook("on_worker_start", function, 1)
        with self._lock:
            self.worker_start += (hook,)
        return function

    def on_worker_stop(self, function: WorkerHook) -> WorkerHook:
        """Add a hook and return it."""
        hook = _hook("on_worker_stop", function, 1)
        with self._lock:
            self.worker_stop += (hook,)
        return function

    def around_job(self, function: AroundHook) -> AroundHook:
        """Add a hook and return it."""
        hook = _hook("around_job", function, 1)
        with self._lock:
            self.around += (hook,)
            self.of_jobs = True
        return function

    def before_job(self, function: BeforeHook) -> BeforeHook:
        """Add a hook and return it."""
        hook = _hook("before_job", function, 1)
        with self._lock:
            self.before += (hook,)
            self.of_jobs = True
        return function

    def after_job(self, function: AfterHook) -> AfterHook:
        """Add a hook and return it."""
        hook = _hook("after_job", function, 2)
        with self._lock:
            self.after += (hook,)
            self.of_jobs = True
        return function

    def on_failure(self, function: FailureHook) -> FailureHook:
        """Add a hook and return it."""
        hook = _hook("on_failure", function, 2)
        with self._lock:
            self.failure += (hook,)
            self.of_jobs = True
        return function


def _hook(kind: str, function: Callable[..., Any], arguments: int) -> Hook:
    if not callable(function):
        raise ConfigError(f"{function!r} cannot be a hook of {kind}: it cannot be called")
    hook = Hook(kind, function, _place(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{hook} is asynchronous and would never run", hint="write it with def")
    if inspect.isgeneratorfunction(function):
        if kind != "around_job":
            raise ConfigError(f"{hook} has a yield and would never run", hint="make it a hook of around_job")
        hook = Hook(kind, contextmanager(function), hook.place)
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError as error:
        raise ConfigError(f"{hook} cannot be called with {arguments} arguments: {error}") from None
    except ValueError:  # a function in C may not say what it takes
        pass
    return hook


def _place(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"
