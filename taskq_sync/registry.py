"""Tasks: functions under a stable name, with the options of their jobs.

The registry is what a worker looks names up in; `taskq_sync.task` makes the entries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any, cast

import attrs
from attrs import field, frozen

from taskq_sync import codec
from taskq_sync.argument_key import argument_key
from taskq_sync.clock import as_duration
from taskq_sync.context import JobContext
from taskq_sync.errors import ConfigError, InvalidInput, UnknownTask
from taskq_sync.handler import Handler
from taskq_sync.hooks import Hooks
from taskq_sync.model import JsonValue
from taskq_sync.options import MAX_KEY_BYTES, JobOptions, check_name, check_text

DEFAULT_QUEUE = "default"
MIN_MEMORY_LIMIT = 1024 * 1024
DEFAULT_PAYLOAD_GRACE = timedelta(minutes=10)

RetryAfter = float | timedelta | Callable[[BaseException], float | timedelta | None]
"""A pause in seconds or as timedelta, or what computes one from the exception (None: the job's own
backoff)."""

Unique = bool | Sequence[str]
"""True: all arguments make the unique key of a job; or the names of those that do."""

Concurrency = str | Callable[..., str | None]
"""A concurrency key, or what makes one of the members of the payload, which it gets as keyword arguments."""

ExceptionTypes = type[BaseException] | Sequence[type[BaseException]]


def _types(value: ExceptionTypes | None) -> tuple[type[BaseException], ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, type) else tuple(value)


def _some_types(value: ExceptionTypes) -> tuple[type[BaseException], ...]:
    return _types(value) or ()


def _names(value: Unique) -> bool | tuple[str, ...]:
    # A text, which would become its letters, and anything else are left to the check, which knows the task.
    return tuple(value) if isinstance(value, (list, tuple)) else value  # type: ignore[return-value]


def _grace(value: float | timedelta) -> timedelta:
    return as_duration(value, "payload_grace")


def _limit(value: float | timedelta | None) -> timedelta | None:
    return None if value is None else as_duration(value, "timeout")


@frozen
class FailurePolicy:
    """What a task makes of an exception: whether to retry, and after which pause if not the job's own
    backoff."""

    retryable: bool
    after: timedelta | None = None


@frozen(kw_only=True)
class TaskSpec:
    """One task, as a worker needs it. Raises `ConfigError` or `InvalidInput` in the constructor."""

    name: str = field()
    """The stable name: jobs are stored under it, so it outlives renames of the function."""

    handler: Handler = field(repr=False)
    """The function."""

    queue: str = field(default=DEFAULT_QUEUE)
    """Where its jobs go."""

    options: JobOptions = field(factory=JobOptions)
    """The options of its jobs, where a call says nothing else."""

    unique: bool | tuple[str, ...] = field(default=False, converter=_names)
    """Whether the arguments make the unique key of a job: True for all of them, or the names of those that do."""

    concurrency: Concurrency | None = None
    """The concurrency key of its jobs, or a function that returns it for the members of a payload."""

    aliases: tuple[str, ...] = field(default=(), converter=tuple)
    """Old names under which jobs may still be stored."""

    result: str = field(default="store")
    """`store`, or `discard`: a result that cannot be stored is then dropped and the job succeeds all the
    same."""

    timeout: timedelta | None = field(default=None, converter=_limit)
    """How long one attempt may take; then its context says `should_stop`. None means no limit."""

    interrupt: bool = False
    """Whether the function may be broken off, by an exception that is raised in its thread."""

    isolation: str = field(default="thread")
    """`thread`, or `process`: each attempt runs in a child process, which can be killed and may die."""

    memory_limit: int | None = field(default=None)
    """How many bytes of address space an attempt may take beyond what its child process has at its start; only
    with isolation `process`, and only Linux enforces it. None means no limit."""

    retry_on: tuple[type[BaseException], ...] | None = field(default=None, converter=_types)
    """If given, only these exceptions are worth another attempt; all others end the job as failed."""

    give_up_on: tuple[type[BaseException], ...] = field(default=(), converter=_some_types)
    """These exceptions end the job as failed, also when `retry_on` names them."""

    retry_after: RetryAfter | None = None
    """The pause before the next attempt after an exception, in place of the backoff."""

    payload_grace: timedelta = field(default=DEFAULT_PAYLOAD_GRACE, converter=_grace)
    """For how long after its creation a job with a payload that does not fit is left to newer workers."""

    def __attrs_post_init__(self) -> None:
        for name in (self.name, *self.aliases):
            check_name(name, "the name of a task")
        check_name(self.queue, f"the queue of task {self.name!r}")
        if self.result not in ("store", "discard"):
            raise ConfigError(f"result of task {self.name!r} must be store or discard, it is {self.result!r}")
        for kind in (*(self.retry_on or ()), *self.give_up_on):
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise ConfigError(f"task {self.name!r} lists {kind!r}, which is no exception class")
        if self.timeout == timedelta(0):
            raise ConfigError(f"timeout of task {self.name!r} must be longer than 0 s")
        self._check_isolation()
        self._check_keys()
        if self.retry_after is not None and not callable(self.retry_after):
            as_duration(self.retry_after, f"retry_after of task {self.name!r}")

    def _check_isolation(self) -> None:
        if self.isolation not in ("thread", "process"):
            raise ConfigError(
                f"isolation of task {self.name!r} must be thread or process, it is {self.isolation!r}"
            )
        if self.interrupt and self.isolation == "process":
            raise ConfigError(
                f"task {self.name!r} cannot have interrupt and run in a child process",
                hint="leave interrupt out: a child process is killed",
            )
        limit = self.memory_limit
        if limit is None:
            return
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < MIN_MEMORY_LIMIT:
            raise ConfigError(
                f"memory_limit of task {self.name!r} must be a number of bytes, it is {limit!r}",
                hint=f"512 MiB are 512 * 1024 * 1024, and the least is {MIN_MEMORY_LIMIT}",
            )
        if self.isolation != "process":
            raise ConfigError(
                f"task {self.name!r} has a memory_limit and runs in a thread",
                hint='say isolation="process": only a process can be limited',
            )

    def _check_keys(self) -> None:
        if self.unique is not False:
            self._check_unique()
        if self.concurrency is None:
            return
        if self.options.concurrency_key is not None:
            raise ConfigError(
                f"task {self.name!r} has both concurrency and concurrency_key: give one of them"
            )
        if not callable(self.concurrency):
            check_text(self.concurrency, f"concurrency of task {self.name!r}", MAX_KEY_BYTES)

    def _check_unique(self) -> None:
        if self.options.unique_key is not None:
            raise ConfigError(f"task {self.name!r} has both unique and unique_key: give one of them")
        if self.unique is True:
            return
        if not isinstance(self.unique, tuple) or not self.unique:
            raise ConfigError(
                f"unique of task {self.name!r} must be True or the names of arguments, it is {self.unique!r}",
                hint='for one name write unique=("user_id",), for one key of all jobs unique_key="..."',
            )
        known = self.handler.member_names()
        for name in self.unique:
            if not isinstance(name, str) or (known is not None and name not in known):
                raise ConfigError(f"unique of task {self.name!r} names {name!r}, which is no argument of it")

    def with_keys(self, options: JobOptions, payload_json: str) -> JobOptions:
        """Return the *options* of a job with the keys that the task makes of its payload, where they have none.

        Raises `InvalidInput` for a concurrency key that cannot be one.
        """
        keys: dict[str, Any] = {}
        if self.unique is not False and options.unique_key is None:
            names = None if self.unique is True else self.unique
            keys["unique_key"] = argument_key(self.name, payload_json, names)
        if self.concurrency is not None and options.concurrency_key is None:
            keys["concurrency_key"] = self._concurrency_key(self.concurrency, payload_json)
        return attrs.evolve(options, **keys) if keys else options

    def _concurrency_key(self, concurrency: Concurrency, payload_json: str) -> str | None:
        if not callable(concurrency):
            return concurrency
        members = cast("dict[str, JsonValue]", codec.from_json(payload_json))
        try:
            key = concurrency(**members)
        except Exception as error:
            raise InvalidInput(
                f"concurrency of task {self.name!r} raised {type(error).__name__}: {error}",
                hint="it is called with the members of the payload, and those left out are not there",
            ) from error
        if key is not None:
            check_text(key, f"what concurrency of task {self.name!r} returned", MAX_KEY_BYTES)
        return key

    @property
    def wants_context(self) -> bool:
        """Whether the function takes a `JobContext` first."""
        return self.handler.wants_context

    def structure(self, payload: JsonValue) -> dict[str, Any]:
        """Return the keyword arguments for a payload; raises `PayloadError` when it does not fit."""
        return self.handler.load(payload)

    def call(self, ctx: JobContext | None, kwargs: Mapping[str, Any]) -> object:
        """Run the function; *ctx* may be None where it does not want one."""
        return self.handler.call(ctx, kwargs)

    def policy(self, error: BaseException) -> FailurePolicy:
        """Return what to do after the function raised *error*. A `retry_after` that itself raises is
        ignored."""
        if isinstance(error, self.give_up_on):
            return FailurePolicy(retryable=False)
        if self.retry_on is not None and not isinstance(error, self.retry_on):
            return FailurePolicy(retryable=False)
        try:
            after = self.retry_after(error) if callable(self.retry_after) else self.retry_after
            pause = None if after is None else as_duration(after, "retry_after")
        except Exception:
            pause = None
        return FailurePolicy(retryable=True, after=pause)


class Registry:
    """The tasks of a program, by name and alias, and its `hooks`. May be used by threads."""

    def __init__(self) -> None:
        """Start without tasks."""
        self.hooks = Hooks()
        self._lock = Lock()  # held for look-ups of several names only, never while running code of the user's
        self._by_name: dict[str, TaskSpec] = {}

    def add(self, spec: TaskSpec) -> None:
        """Add a task.

        Raises `ConfigError` when another function has one of its names. The same function again (a module
        that was reloaded) replaces itself.
        """
        with self._lock:
            for name in (spec.name, *spec.aliases):
                other = self._by_name.get(name)
                if other is not None and _place(other) != _place(spec):
                    raise ConfigError(
                        f"the name {name!r} is taken by {_place(other)}, so {_place(spec)} cannot have it"
                    )
            for name in (spec.name, *spec.aliases):
                self._by_name[name] = spec

    def find(self, name: str) -> TaskSpec | None:
        """Return the task of that name or alias, or None."""
        return self._by_name.get(name)

    def get(self, name: str) -> TaskSpec:
        """Return the task of that name or alias; raises `UnknownTask`, which lists what there is."""
        spec = self.find(name)
        if spec is None:
            known = ", ".join(each.name for each in self) or "none"
            raise UnknownTask(f"there is no task {name!r}", hint=f"import its module; known are: {known}")
        return spec

    def check(self) -> None:
        """Resolve the types of all tasks; raises `ConfigError` for the first that cannot be restored from
        JSON."""
        for spec in self:
            spec.handler.shape()

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of the tasks, sorted."""
        return tuple(sorted({spec.queue for spec in self}))

    def __iter__(self) -> Iterator[TaskSpec]:
        """Return the tasks in the order of their names, each once."""
        with self._lock:
            specs = {spec.name: spec for spec in self._by_name.values()}
        return iter([specs[name] for name in sorted(specs)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name


def default_name(function: Callable[..., object]) -> str:
    """Return the name of a task that was given none: module and function.

    For a function of the script that is running, `__main__` is replaced by what a worker imports it as.
    """
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        path = getattr(main, "__file__", None)
        module = spec.name.removesuffix(".__main__") if spec else Path(path).stem if path else module
    return f"{module}.{function.__qualname__}"


def _place(spec: TaskSpec) -> str:
    function = spec.handler.function
    return f"{function.__module__}.{function.__qualname__}"
