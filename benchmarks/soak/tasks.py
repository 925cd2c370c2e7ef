"""What the workers run: a task for each way in which an attempt can end, and whether its jobs are asked to fail.

Every handler writes to the ledger first, then takes its *seconds*. What succeeds has the fence of its attempt as the
result: so it can be seen which attempt a job was really completed by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from benchmarks.soak import ledger
from taskq_sync import Cancel, Complete, JobContext, NonRetryable, Retry, Snooze, TaskQ
from taskq_sync.task import ContextTask

QUEUE = "soak"

#: Of all jobs. Long enough for a restart of the server, short enough that what a killed worker had is done again
#: before the next one is killed.
LEASE = 8.0

#: So often a handler that is asked to fail for a while does so.
FAILURES = 2

#: Written in the transaction that completes the job: exactly once, whatever happens.
ONCE_TABLE = "create table soak.once (job_id bigint not null, fence bigint not null)"


class Asked(Exception):
    """What a handler raises that is asked to fail."""


def value(ctx: JobContext, number: int, seconds: float) -> int:
    """Return a plain value."""
    _work(ctx, seconds)
    return ctx.fence


def complete(ctx: JobContext, number: int, seconds: float) -> Complete:
    """Return an outcome."""
    _work(ctx, seconds)
    return Complete(ctx.fence)


def raises(ctx: JobContext, number: int, seconds: float) -> int:
    """Raise for a while, then succeed."""
    _work(ctx, seconds)
    if ctx.job.failure_count < FAILURES:
        raise Asked(f"failure {ctx.job.failure_count + 1} of {FAILURES}")
    return ctx.fence


def retry(ctx: JobContext, number: int, seconds: float) -> int | Retry:
    """Ask for another attempt for a while, then succeed."""
    _work(ctx, seconds)
    if ctx.job.failure_count < FAILURES:
        return Retry(after=0.1 + seconds, error="once more")
    return ctx.fence


def exhausts(ctx: JobContext, number: int, seconds: float) -> None:
    """Raise until the budget is used up."""
    _work(ctx, seconds)
    raise Asked("as always")


def gives_up(ctx: JobContext, number: int, seconds: float) -> NonRetryable:
    """Fail for good."""
    _work(ctx, seconds)
    return NonRetryable("for good")


def snooze(ctx: JobContext, number: int, seconds: float) -> int | Snooze:
    """Come back later, twice."""
    _work(ctx, seconds)
    times = ctx.progress if isinstance(ctx.progress, int) else 0
    return ctx.fence if times == 2 else Snooze(0.1 + seconds, progress=times + 1)


def cancel(ctx: JobContext, number: int, seconds: float) -> Cancel:
    """End as cancelled."""
    _work(ctx, seconds)
    return Cancel("nobody wants it")


def checkpoints(ctx: JobContext, number: int, seconds: float) -> int:
    """Go on where the attempt before was; every tenth job waits until each step is stored."""
    ledger.write(ctx.job.job_id, ctx.fence)
    done = ctx.progress if isinstance(ctx.progress, int) else 0
    for step in range(done, 4):
        time.sleep(seconds / 4)
        ctx.checkpoint(step + 1, flush=number % 10 == 0)
    return ctx.fence


def transaction(ctx: JobContext, number: int, seconds: float) -> None:
    """Write a row and complete in one commit."""
    ledger.write(ctx.job.job_id, ctx.fence)
    with ctx.transaction() as tx:
        tx.execute("insert into soak.once (job_id, fence) values (%s, %s)", (ctx.job.job_id, ctx.fence))
        time.sleep(seconds)
        tx.complete(ctx.fence)


def _work(ctx: JobContext, seconds: float) -> None:
    ledger.write(ctx.job.job_id, ctx.fence)
    if seconds:
        time.sleep(seconds)


@frozen
class Kind:
    """A task, the status that its jobs are asked to end with, and how many of 100 jobs are of it."""

    function: Callable[..., Any]
    ends: str
    share: float
    max_attempts: int = 20

    @property
    def name(self) -> str:
        """The name of the task."""
        return f"soak.{self.function.__name__}"


KINDS = (
    Kind(value, "succeeded", 30),
    Kind(complete, "succeeded", 28),
    Kind(raises, "succeeded", 6),
    Kind(retry, "succeeded", 6),
    Kind(exhausts, "failed", 2, max_attempts=2),
    Kind(gives_up, "failed", 4),
    Kind(snooze, "succeeded", 6),
    Kind(cancel, "cancelled", 4),
    Kind(checkpoints, "succeeded", 6),
    Kind(transaction, "succeeded", 8),
)


def register(tq: TaskQ) -> Mapping[str, ContextTask[..., Any]]:
    """Make the tasks of *tq*, and return them by the name of their kind."""
    return {
        kind.name: tq.task(
            queue=QUEUE,
            name=kind.name,
            lease=LEASE,
            max_attempts=kind.max_attempts,
            backoff=0.2,
            backoff_max=2,
        )(kind.function)
        for kind in KINDS
    }
