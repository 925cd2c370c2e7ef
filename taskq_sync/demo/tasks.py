"""The program that the workers of the demo run::

    taskq-sync worker --app taskq_sync.demo.tasks:tq

It finds its database in `TASKQ_DSN`, like any other program.
"""

from __future__ import annotations

import os
from pathlib import Path

from taskq_sync import Cancel, JobContext, Retry, Snooze, TaskQ
from taskq_sync.demo.library import Module, index
from taskq_sync.demo.starts import VARIABLE, Starts

tq = TaskQ()
starts = Starts(Path(os.environ[VARIABLE]))


@tq.task(
    queue="library",
    name="demo.index",
    # A file that does not parse will not parse next time either.
    give_up_on=(SyntaxError, ValueError),
    max_attempts=3,
    backoff=0.2,
)
def index_module(ctx: JobContext, path: str, first: str | None = None) -> Module:
    """Read one file of the library. *first* is what the job is to do before that, once, so that it can be seen."""
    starts.record(ctx.job.job_id, ctx.fence)
    if first == "snooze" and ctx.progress is None:
        raise Snooze(0.5, progress="snoozed", reason="the demo shows a snooze")
    if first == "retry" and ctx.job.failure_count == 0:
        raise Retry(after=0.5, error="the demo shows a failure that passes")
    if first == "cancel":
        raise Cancel("the demo shows a handler that cancels its job")
    return index(Path(path))
