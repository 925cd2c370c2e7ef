"""The object that `@tq.task` puts in the place of a function.

::

    @tq.task(queue="mail", max_attempts=8)
    def welcome(ctx: JobContext, user_id: int) -> None: ...

    welcome.enqueue(user_id=7)                       # a wrong argument is an error of mypy
    welcome.using(delay=60, unique_key="w:7").enqueue(user_id=7)
    tq.enqueue_many(welcome.job(user_id=i) for i in ids)
    welcome(ctx, user_id=7)                          # still the plain function

The types take care of the context: a function that takes `ctx: JobContext` first becomes a `ContextTask`,
and is enqueued without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

import attrs

from taskq_sync import codec
from taskq_sync.clock import as_duration
from taskq_sync.context import JobContext
from taskq_sync.errors import ConfigError
from taskq_sync.handler import Handler
from taskq_sync.model import EnqueueResult, JobRequest
from taskq_sync.options import JobOptions, OptionValues, check_name
from taskq_sync.registry import (
    Concurrency,
    ExceptionTypes,
    RetryAfter,
    TaskSpec,
    Unique,
    default_name,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")


class TaskValues(OptionValues, total=False):
    """What `@tq.task` takes; `TaskSpec` says what the settings mean, `JobOptions` the options of the jobs."""

    name: str
    queue: str
    unique: Unique
    concurrency: Concurrency | None
    aliases: Sequence[str]
    result: Literal["store", "discard"]
    timeout: float | timedelta | None
    interrupt: bool
    isolation: Literal["thread", "process"]
    memory_limit: int | None
    retry_on: ExceptionTypes | None
    give_up_on: ExceptionTypes
    retry_after: RetryAfter | None
    payload_grace: float | timedelta


class Client(Protocol):
    """What a task needs of the client: to send one job."""

    def send(
        self,
        request: JobRequest,
        *,
        connection: object | None,
        timeout: float | None,
        block: float | timedelta | None,
    ) -> EnqueueResult:
        """Enqueue the job."""
        ...


def check_block(block: float | timedelta | None, connection: object | None) -> None:
    """Raise unless an enqueue may wait so long for room in its queue: `ConfigError` in a caller's transaction.

    Whoever waits in a transaction keeps its locks and its snapshot meanwhile, and others from what they need.
    """
    if block is None:
        return
    as_duration(block, "block")
    if connection is not None:
        raise ConfigError(
            "an enqueue in your own transaction cannot wait for room in its queue",
            hint="leave block or connection out, or catch QueueFull and roll back",
        )


class Sender(Generic[P]):
    """Enqueues one task with certain options. Immutable, so it may be kept and shared."""

    def __init__(
        self,
        spec: TaskSpec,
        client: Client,
        *,
        queue: str,
        options: JobOptions,
        connection: object | None = None,
        timeout: float | None = None,
        block: float | timedelta | None = None,
    ) -> None:
        """Made by `@tq.task` and `using`."""
        if options.headers is not None:
            codec.to_json(options.headers, "headers")  # so that bad ones are refused where they are given
        check_block(block, connection)
        self.spec = spec
        self._client = client
        self._queue = queue
        self._options = options
        self._connection = connection
        self._timeout = timeout
        self._block = block
        self._one_by_one = any(each is not None for each in (connection, timeout, block))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> EnqueueResult:
        """Enqueue one job with these arguments, and return its id and what became of the request.

        Without `using(connection=...)` the job is committed when this returns; it takes up to the timeout
        of the client (5 s), connecting included. Raises `PayloadError` and `InvalidInput` before anything
        is sent, later `DatabaseUnavailable` (nothing was enqueued), `OutcomeUnknown`, `SchemaError`,
        `QueueFull`.
        """
        request = self._request(args, kwargs)
        return self._client.send(
            request, connection=self._connection, timeout=self._timeout, block=self._block
        )

    delay = enqueue

    def job(self, *args: P.args, **kwargs: P.kwargs) -> JobRequest:
        """Return the job with these arguments, checked, for `tq.enqueue_many`. Nothing is sent."""
        if self._one_by_one:
            raise ConfigError(
                f"a job of {self.spec.name} cannot carry a connection, timeout or block",
                hint="hand them to enqueue_many",
            )
        return self._request(args, kwargs)

    def using(
        self,
        *,
        queue: str | None = None,
        connection: object | None = None,
        timeout: float | None = None,
        block: float | timedelta | None = None,
        **options: Unpack[OptionValues],
    ) -> Sender[P]:
        """Return a sender with these options over the present ones; see `JobOptions` for what they mean.

        With *connection* (psycopg, or a SQLAlchemy Connection or Session) the job is enqueued in the caller's
        transaction: it exists if and when the caller commits. *timeout* is in seconds, for calls without one.
        With *block* the call waits up to so many seconds for room in a full queue, before it raises `QueueFull`.
        Raises `InvalidInput`, `ConfigError` for *block* together with *connection*.
        """
        if queue is not None:
            check_name(queue, "queue")
        return Sender(
            self.spec,
            self._client,
            queue=queue if queue is not None else self._queue,
            options=JobOptions(**options).merged_over(self._options),
            connection=connection if connection is not None else self._connection,
            timeout=timeout if timeout is not None else self._timeout,
            block=block if block is not None else self._block,
        )

    def _request(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> JobRequest:
        payload_json = self.spec.handler.dump(args, kwargs)
        return JobRequest(
            queue=self._queue,
            task=self.spec.name,
            payload_json=payload_json,
            options=self.spec.with_keys(self._options, payload_json),
        )


class _Decorated(Sender[P], Generic[P, R]):
    """A sender that is also the function it was made from."""

    def __init__(self, spec: TaskSpec, client: Client) -> None:
        super().__init__(spec, client, queue=spec.queue, options=spec.options)
        functools.update_wrapper(cast(Any, self), spec.handler.function)

    # Found by its name in its module, like a function.
    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined, no-any-return]  # set by update_wrapper

    def __repr__(self) -> str:
        return f"<task {self.spec.name} on queue {self.spec.queue}>"


class Task(_Decorated[P, R]):
    """A task whose function takes no context."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self.spec.handler.function(*args, **kwargs)  # type: ignore[return-value]


class ContextTask(_Decorated[P, R]):
    """A task whose function takes a `JobContext` first; it is enqueued without one."""

    def __call__(self, ctx: JobContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self.spec.handler.function(ctx, *args, **kwargs)  # type: ignore[return-value]


class TaskDecorator(Protocol):
    """What `tq.task(...)` returns: makes a task of a function."""

    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


def make_task(
    function: Callable[..., R], client: Client, values: TaskValues
) -> Task[..., R] | ContextTask[..., R]:
    """Return *function* as a task, not yet registered. Raises `ConfigError` or `InvalidInput`."""
    settings = dict(values)
    option_names = [each.name for each in attrs.fields(JobOptions)]
    options = {name: settings.pop(name) for name in option_names if name in settings}
    name = settings.pop("name", None) or default_name(function)
    spec = TaskSpec(
        name=str(name),
        handler=Handler(function, str(name)),
        options=JobOptions(**options),  # type: ignore[arg-type]
        **settings,  # type: ignore[arg-type]
    )
    return (ContextTask if spec.wants_context else Task)(spec, client)
