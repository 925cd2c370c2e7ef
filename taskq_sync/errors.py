"""Every error the library raises, one class for each thing a caller would do differently.

::

    TaskQError
    |-- ConfigError            the program or its settings are wrong: correct them
    |-- UnknownTask            no task of that name is registered: import its module
    |-- PayloadError           a value cannot be stored or restored: correct the value at `path`
    |-- InvalidInput           the database refused an argument: correct it
    |-- JobNotFound            no such job: it never was, or retention deleted it
    |-- WorkerNotFound         no such worker: it has ended
    |-- WrongState             the job, or the session, is not in the state this needs
    |-- QueueFull              try later
    |-- BrokenInvariant        a defect: report it with the message
    |-- SchemaError            the schema is missing, too old, too new or not granted: `taskq-sync migrate`
    |-- DatabaseUnavailable    no answer in time, and nothing was done: try later
    |   `-- OutcomeUnknown     the link broke after sending: it may or may not have been done
    |-- EnqueueInterrupted     a bulk enqueue failed half way: `job_ids` says what is in
    |-- LeaseLost              raised in a handler: another attempt may own the job
    |-- JobCancelled           raised in a handler that asked: somebody cancelled the job
    |-- JobTimeout             raised in a handler: its time limit has passed
    `-- HookError              a hook of the program failed, so what comes after it was not run

The error of the driver is the `__cause__`. All can be pickled. Expected races (a duplicate, a lost fence at
settle) are values, not errors.
"""

from __future__ import annotations

from collections.abc import Sequence


class TaskQError(Exception):
    """The base of all errors of this library.

    `hint` says what to do, where that is known; `sqlstate` is the code of the database, where one answered.
    Both are keyword-only, so that subclasses pickle by their message and their attributes.
    """

    hint: str | None
    sqlstate: str | None

    def __init__(self, message: str, *, hint: str | None = None, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.sqlstate = sqlstate

    @property
    def message(self) -> str:
        """What happened, without the hint."""
        return str(self.args[0])

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class ConfigError(TaskQError, ValueError):
    """The program or its settings are wrong; it fails in the same way until somebody corrects them.

    Raised where the mistake is made (in a constructor, at decoration), never later in a thread.
    """


class UnknownTask(TaskQError, LookupError):
    """No task of that name is registered in this process.

    A worker releases such a job for a while, without cost to its budget: another worker may know the task.
    """


class PayloadError(TaskQError, ValueError):
    """A payload, result or checkpoint cannot be stored as JSON, or would not come back as it was.

    `path` leads to the value, for example `$.items[3].price`. Raised before anything is sent, so a
    transaction of the caller is still usable.
    """

    path: str

    def __init__(self, message: str, *, path: str = "$", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class InvalidInput(TaskQError, ValueError):
    """An argument was refused (TQ422), by the database or before anything was sent.

    Nothing was done. For a bulk call `ordinal` is the position of the bad element in the call's input, from
    0.
    """

    ordinal: int | None

    def __init__(
        self,
        message: str,
        *,
        ordinal: int | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, sqlstate=sqlstate)
        self.ordinal = ordinal


class JobNotFound(TaskQError, LookupError):
    """There is no such job (TQ001): the id is wrong, or the job ended and retention has deleted it."""


class WorkerNotFound(TaskQError, LookupError):
    """There is no such worker (TQ001): it has ended, or its id is wrong."""


class WrongState(TaskQError):
    """The job or the session is not in a state that allows this (TQ409). Nothing was changed."""


class QueueFull(TaskQError):
    """The queue holds as many waiting jobs as it may (TQ429). Nothing was enqueued; try later.

    `depth` is how many jobs wait, counted no further than one beyond the `max_depth` of the queue; None where
    that is not known. `using(block=...)` waits for room.
    """

    depth: int | None

    def __init__(
        self,
        message: str,
        *,
        depth: int | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, sqlstate=sqlstate)
        self.depth = depth


class BrokenInvariant(TaskQError):
    """The schema found itself in a state that should be impossible (TQ500). The transaction was rolled
    back."""


class SchemaError(TaskQError):
    """The schema is missing, older than this client needs, or its functions are not granted to the role.

    `taskq-sync migrate` installs or upgrades it. A role needs USAGE on the schema and EXECUTE on the functions
    that it calls.
    """


class DatabaseUnavailable(TaskQError):
    """The database could not be reached, or did not answer in time. Nothing was done; try later."""


class OutcomeUnknown(DatabaseUnavailable):
    """The link broke after the statement was sent, so nobody can tell whether it was done.

    An enqueue with a `unique_key` may be repeated, and makes no second job while the first one is live; the client
    then does so by itself. A job that has ended by then has given its key up, and is enqueued once more; with a
    `unique_for` longer than the call may take it has not. A key of scope `waiting` is given up when the job is
    started, so there the client repeats the call only with such a `unique_for`. And where a call that replaces
    meets a running job when it is repeated, nobody can tell which request that job has: this error stays.
    """


class EnqueueInterrupted(TaskQError):
    """`enqueue_many` sent several statements and one of them failed; its error is the `__cause__`.

    `job_ids` has one entry for each job, in input order: the id of a job that is in, else None. `uncertain`
    holds the positions for which the outcome is unknown. To go on, enqueue the jobs whose id is None.
    """

    job_ids: tuple[int | None, ...]
    uncertain: tuple[int, ...]

    def __init__(
        self,
        message: str,
        *,
        job_ids: Sequence[int | None] = (),
        uncertain: Sequence[int] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.job_ids = tuple(job_ids)
        self.uncertain = tuple(uncertain)

    @property
    def enqueued(self) -> tuple[int, ...]:
        """The positions of the jobs that are in."""
        return tuple(ordinal for ordinal, job_id in enumerate(self.job_ids) if job_id is not None)


class LeaseLost(TaskQError):
    """Raised by the context of a handler whose lease has run out: another attempt may own the job by now.

    End the handler; whatever it returns is offered to the database, and the fence decides.
    """


class JobCancelled(TaskQError):
    """Raised by `ctx.raise_if_cancelled()` after somebody asked to cancel the job. The job ends as
    cancelled."""


class JobTimeout(TaskQError):
    """The handler ran longer than the time limit of its task. Counts as a failure that may be retried."""


class HookError(TaskQError):
    """A hook failed before the handler, or before the worker served; what the hook raised is the `__cause__`.

    The attempt of the job has failed and is repeated, whatever the task says about exceptions. A worker ends.
    """
