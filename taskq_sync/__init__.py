"""A PostgreSQL job queue for synchronous Python.

::

    from taskq_sync import JobContext, TaskQ

    tq = TaskQ()

    @tq.task(queue="mail", max_attempts=8)
    def welcome(ctx: JobContext, user_id: int) -> None:
        ...

    welcome.enqueue(user_id=7)

`taskq-sync worker --app module:tq` runs the jobs.
"""

import logging

from taskq_sync.client import TaskQ
from taskq_sync.context import JobContext, JobTransaction
from taskq_sync.errors import (
    BrokenInvariant,
    ConfigError,
    DatabaseUnavailable,
    EnqueueInterrupted,
    HookError,
    InvalidInput,
    JobCancelled,
    JobNotFound,
    JobTimeout,
    LeaseLost,
    OutcomeUnknown,
    PayloadError,
    QueueFull,
    SchemaError,
    TaskQError,
    UnknownTask,
    WorkerNotFound,
    WrongState,
)
from taskq_sync.hooks import AttemptEnd, WorkerProcess
from taskq_sync.logs import JobLogFilter
from taskq_sync.model import EnqueueResult, Job, JobRequest
from taskq_sync.options import JobOptions
from taskq_sync.outcome import Cancel, Complete, NonRetryable, Retry, Snooze
from taskq_sync.version import __version__

__all__ = [
    "AttemptEnd",
    "BrokenInvariant",
    "Cancel",
    "Complete",
    "ConfigError",
    "DatabaseUnavailable",
    "EnqueueInterrupted",
    "EnqueueResult",
    "HookError",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobLogFilter",
    "JobNotFound",
    "JobOptions",
    "JobRequest",
    "JobTimeout",
    "JobTransaction",
    "LeaseLost",
    "NonRetryable",
    "OutcomeUnknown",
    "PayloadError",
    "QueueFull",
    "Retry",
    "SchemaError",
    "Snooze",
    "TaskQ",
    "TaskQError",
    "UnknownTask",
    "WorkerNotFound",
    "WorkerProcess",
    "WrongState",
    "__version__",
]

# What a library says is for the program to show.
logging.getLogger(__name__).addHandler(logging.NullHandler())
