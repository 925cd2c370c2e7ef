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

from taskq_sync.client import TaskQ
from taskq_sync.context import JobContext, JobTransaction
from taskq_sync.errors import (
    BrokenInvariant,
    ConfigError,
    DatabaseUnavailable,
    EnqueueInterrupted,
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
from taskq_sync.model import EnqueueResult, Job, JobRequest
from taskq_sync.options import JobOptions
from taskq_sync.outcome import Cancel, Complete, NonRetryable, Retry, Snooze
from taskq_sync.version import __version__

__all__ = [
    "BrokenInvariant",
    "Cancel",
    "Complete",
    "ConfigError",
    "DatabaseUnavailable",
    "EnqueueInterrupted",
    "EnqueueResult",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobContext",
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
    "WrongState",
    "__version__",
]
