"""The client: makes tasks, enqueues jobs, looks at them.

::

    tq = TaskQ()                               # TASKQ_DSN, DATABASE_URL or PG*; connects on first use

    @tq.task(queue="mail")
    def welcome(user_id: int) -> None: ...

    result = welcome.enqueue(user_id=7)
    tq.get(result.job_id).status

A call without a connection of the caller's is committed when it returns, and returns or raises by its
deadline. It is repeated within the deadline only where that cannot make a second job: when nothing was
sent, when the server undid it, or when the unique key of the job holds it together. See `OutcomeUnknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from taskq_sync.bulk import Batch, batches
from taskq_sync.clock import Deadline, as_duration
from taskq_sync.context import JobContext
from taskq_sync.db.config import DEFAULT_POOL_SIZE, DEFAULT_TIMEOUT, DatabaseConfig, read_config
from taskq_sync.db.connections import Executor, executor_for
from taskq_sync.db.faults import is_transient
from taskq_sync.db.installed import require_client
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.pool import Database
from taskq_sync.db.queues import Queues
from taskq_sync.db.session import CANCEL_GRACE
from taskq_sync.db.workers import Workers
from taskq_sync.errors import (
    DatabaseUnavailable,
    EnqueueInterrupted,
    InvalidInput,
    OutcomeUnknown,
    QueueFull,
    SchemaError,
    TaskQError,
)
from taskq_sync.hooks import AfterHook, AroundHook, BeforeHook, FailureHook, WorkerHook
from taskq_sync.model import EnqueueResult, Job, JobRequest
from taskq_sync.options import JobOptions
from taskq_sync.registry import Registry
from taskq_sync.retry import repeat_until
from taskq_sync.task import ContextTask, Task, TaskDecorator, TaskValues, check_block, make_task
from taskq_sync.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")
_T = TypeVar("_T")

_NOT_GRANTED = "42501"


class TaskQ:
    """A program's way to one schema of jobs. Make one for each process and share it, also between threads.

    `registry` holds the tasks; `database`, `jobs`, `queues` and `workers` are the layer below, for workers and
    tools.
    """

    registry: Registry
    database: Database
    jobs: Jobs
    queues: Queues
    workers: Workers

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str | None = None,
        pooled: bool | None = None,
        listen_dsn: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        pool_size: int = DEFAULT_POOL_SIZE,
    ) -> None:
        """Describe the database; nothing connects.

        *dsn*, *schema* (`taskq`), *pooled* and *listen_dsn* left out are read from the environment, see
        `taskq_sync.db.config`. *timeout* is the time in seconds a call may take, connecting included;
        *pool_size* the most connections that are kept. Raises `ConfigError`.
        """
        self._use(
            read_config(
                dsn,
                schema=schema,
                pooled=pooled,
                listen_dsn=listen_dsn,
                timeout=timeout,
                pool_size=pool_size,
            )
        )
        self.registry = Registry()

    def _use(self, config: DatabaseConfig) -> None:
        self.database = Database(config)
        self.jobs = Jobs(self.database.statements)
        self.queues = Queues(self.database.statements)
        self.workers = Workers(self.database.statements)
        self._allowed = False  # the schema was asked whether it serves this client

    # Tasks

    @overload
    def task(self, function: Callable[Concatenate[JobContext, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(self, function: None = None, /, **values: Unpack[TaskValues]) -> TaskDecorator: ...

    def task(self, function: Any = None, /, **values: Any) -> Any:
        """Make a task of a function: `@tq.task` or `@tq.task(queue="mail", max_attempts=8)`.

        Settings: `name` (stable, default module and function), `queue` (`default`), `unique` and `concurrency`
        (what makes the keys of a job of its arguments), `aliases`, `result`,
        `timeout`, `interrupt`, `isolation`, `memory_limit`, `retry_on`, `give_up_on`, `retry_after`,
        `payload_grace` as in `TaskSpec`; all others are the options of its jobs as in `JobOptions`. Raises
        `ConfigError` and `InvalidInput` at once.
        """

        def decorate(decorated: Callable[..., Any]) -> Any:
            made = make_task(decorated, self, values)  # type: ignore[arg-type]  # the overload's values
            self.registry.add(made.spec)
            return made

        return decorate if function is None else decorate(function)

    # Hooks

    def on_worker_start(self, hook: WorkerHook, /) -> WorkerHook:
        """Run *hook* in each process that runs jobs, before the first one; an error of it ends the process."""
        return self.registry.hooks.on_worker_start(hook)

    def on_worker_stop(self, hook: WorkerHook, /) -> WorkerHook:
        """Run *hook* in each process that runs jobs, after the last one."""
        return self.registry.hooks.on_worker_stop(hook)

    def around_job(self, hook: AroundHook, /) -> AroundHook:
        """Run each handler within *hook*: a generator function with one yield, or what returns a context manager."""
        return self.registry.hooks.around_job(hook)

    def before_job(self, hook: BeforeHook, /) -> BeforeHook:
        """Run *hook* before each handler; an error of it fails the attempt, and the handler is not run."""
        return self.registry.hooks.before_job(hook)

    def after_job(self, hook: AfterHook, /) -> AfterHook:
        """Run *hook* after each handler, however it has ended; see `AttemptEnd`."""
        return self.registry.hooks.after_job(hook)

    def on_failure(self, hook: FailureHook, /) -> FailureHook:
        """Run *hook* after each attempt that has failed, with the error; for `Retry` and the like with the outcome."""
        return self.registry.hooks.on_failure(hook)

    # Enqueue

    def send(
        self,
        request: JobRequest,
        *,
        connection: object | None = None,
        timeout: float | None = None,
        block: float | timedelta | None = None,
    ) -> EnqueueResult:
        """Enqueue one job made by `task.job(...)`; `task.enqueue(...)` is the usual way, and says more."""

        def enqueue(ex: Executor, skip_wake: bool) -> EnqueueResult:
            return self.jobs.enqueue(
                ex, request.queue, request.task, request.payload_json, request.options, skip_wake
            )

        check_block(block, connection)
        if connection is not None:
            return enqueue(executor_for(connection), False)
        return _when_there_is_room(
            _deadline_for_room(block),
            lambda: self._enqueue(
                lambda ex: [enqueue(ex, True)], [request.options], request.options.repeatable_for, timeout
            ),
        )[0]

    def enqueue_many(
        self,
        requests: Iterable[JobRequest],
        *,
        connection: object | None = None,
        timeout: float | None = None,
        block: float | timedelta | None = None,
    ) -> list[EnqueueResult]:
        """Enqueue the jobs of any iterable, made by `task.job(...)`; results in input order.

        The iterable is read to its end before anything is sent. The jobs go by queue, at most 10,000 and 8
        MiB in a statement, each committed on its own within *timeout* seconds; in the caller's *connection*
        all belong to the caller's transaction. A duplicate of a unique key is no error: its result says so, see
        `EnqueueResult.status`. With *block* the call waits up to so many seconds in all for room in full queues;
        a statement needs room for all its jobs at once.

        Raises the errors of `enqueue` when no job is in (`InvalidInput.ordinal` is the position in
        *requests*), `EnqueueInterrupted` when some are.
        """
        check_block(block, connection)
        taken = list(requests)
        results: list[EnqueueResult | None] = [None] * len(taken)
        executor = None if connection is None else executor_for(connection)
        room = _deadline_for_room(block)
        for batch in batches(taken):
            try:
                answers = self._send_batch(batch, executor, timeout, room)
            except TaskQError as error:
                raise _interrupted(error, batch, results, in_transaction=executor is not None) from error
            for ordinal, answer in zip(batch.ordinals, answers, strict=True):
                results[ordinal] = answer
        return [result for result in results if result is not None]

    def _send_batch(
        self, batch: Batch, executor: Executor | None, timeout: float | None, room: Deadline | None
    ) -> Sequence[EnqueueResult]:
        if executor is not None:
            return self.jobs.enqueue_many(executor, batch.queue, batch.jobs_json, False)

        def enqueue(ex: Executor) -> Sequence[EnqueueResult]:
            return self.jobs.enqueue_many(ex, batch.queue, batch.jobs_json, True)

        return _when_there_is_room(
            room, lambda: self._enqueue(enqueue, batch.options, batch.repeatable_for, timeout)
        )

    def _enqueue(
        self,
        call: Callable[[Executor], Sequence[EnqueueResult]],
        options: Sequence[JobOptions],
        repeatable_for: float,
        timeout: float | None,
    ) -> Sequence[EnqueueResult]:
        """Enqueue jobs with these *options* by *call*, which is repeated where that makes no second job.

        A repeated call that replaces may meet the very request that it had stored before, being run by now: when
        it cannot be told from an older one, the outcome stays unknown.
        """
        deadline = self.database.deadline(timeout)

        def is_certain(answers: Sequence[EnqueueResult]) -> bool:
            return all(
                answer.accepted or each.unique_mode in (None, "keep")
                for each, answer in zip(options, answers, strict=True)
            )

        return self._call(
            call,
            deadline,
            repeatable=repeatable_for >= deadline.seconds + CANCEL_GRACE,
            is_certain=is_certain,
        )

    # Look

    def get(self, job: int | EnqueueResult, *, timeout: float | None = None) -> Job:
        """Return a job, wherever it stands. Raises `JobNotFound`, `DatabaseUnavailable`, `SchemaError`."""
        job_id = job.job_id if isinstance(job, EnqueueResult) else job
        with _only_looking():
            return self._call(
                lambda ex: self.jobs.get(ex, job_id), self.database.deadline(timeout), repeatable=True
            )

    def close(self) -> None:
        """Close the connections that are idle. The client may be used again; it then connects anew."""
        self.database.close()

    def __enter__(self) -> TaskQ:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TaskQ({self.database.config.target}, schema={self.database.config.schema!r})"

    def _call(
        self,
        call: Callable[[Executor], _T],
        deadline: Deadline,
        *,
        repeatable: bool,
        is_certain: Callable[[_T], bool] = lambda answer: True,
    ) -> _T:
        """Run *call* on a connection of our own; a *repeatable* one also after its outcome became unknown.

        An answer to the repeated call that is not certain leaves the outcome unknown.
        """

        def attempt() -> _T:
            with self.database.client_pool.session(deadline) as session:
                if not self._allowed:
                    self._check_schema(session)
                return call(session)

        unknown: OutcomeUnknown | None = None
        reasons: list[str] = []

        def may_repeat(error: BaseException) -> bool:
            nonlocal unknown
            if isinstance(error, OutcomeUnknown):
                unknown = error
                if not repeatable:
                    return False
            if not isinstance(error, DatabaseUnavailable) or not is_transient(error):
                return False
            reasons.append(error.message)
            return True

        try:
            answer = repeat_until(deadline, attempt, when=may_repeat)
        except (DatabaseUnavailable, QueueFull) as error:
            # That the last attempt has done nothing says nothing about an earlier one.
            if unknown is not None:
                raise unknown from unknown.__cause__
            if isinstance(error, QueueFull):
                raise
            earlier = next((each for each in reasons if each != error.message), None)
            if deadline.expired and earlier is not None:  # the last one had no time to find the reason out
                message = f"{error.message}; before: {earlier}"
                raise DatabaseUnavailable(message, sqlstate=error.sqlstate) from error.__cause__
            raise
        if unknown is not None and not is_certain(answer):
            raise unknown from unknown.__cause__
        return answer

    def _check_schema(self, session: Executor) -> None:
        """Raise `SchemaError` if the schema asks for a newer client; once it does not, it is not asked again.

        Only on connections of our own: in a transaction of a caller's, an error of ours would be the end of it.
        """
        try:
            with _only_looking():
                installed = self.jobs.schema_version(session)
        except SchemaError as error:
            # A role that may enqueue need not be allowed to ask. What else is wrong, the call itself will say.
            self._allowed = error.sqlstate == _NOT_GRANTED
            return
        schema = f"schema {self.database.config.schema} in {self.database.config.target}"
        require_client(installed.min_client, version=__version__, what=schema)
        self._allowed = True


def _deadline_for_room(block: float | timedelta | None) -> Deadline | None:
    return None if block is None else Deadline.after(as_duration(block, "block").total_seconds())


def _when_there_is_room(deadline: Deadline | None, call: Callable[[], _T]) -> _T:
    """Run *call*, once if there is no *deadline*, else until then again and again while the queue is full."""
    if deadline is None:
        return call()
    return repeat_until(deadline, call, when=lambda error: isinstance(error, QueueFull), at_the_end=True)


@contextmanager
def _only_looking() -> Iterator[None]:
    """Let no outcome be unknown: of a look nothing can be."""
    try:
        yield
    except OutcomeUnknown as error:
        raise DatabaseUnavailable(error.message, sqlstate=error.sqlstate) from error


def _interrupted(
    error: TaskQError, batch: Batch, results: Sequence[EnqueueResult | None], *, in_transaction: bool
) -> TaskQError:
    """Return the error of a bulk call: *error* itself, about the whole input, when no job is in."""
    if isinstance(error, InvalidInput) and error.ordinal is not None:
        error.ordinal = batch.ordinals[error.ordinal]
    job_ids = [None if result is None else result.job_id for result in results]
    uncertain = batch.ordinals if isinstance(error, OutcomeUnknown) else ()
    sent = sum(job_id is not None for job_id in job_ids)
    if in_transaction or not sent:
        return error
    return EnqueueInterrupted(
        f"{sent} of {len(results)} jobs are in, then: {error}", job_ids=job_ids, uncertain=uncertain
    )
