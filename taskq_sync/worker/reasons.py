"""Why a handler that does not end by itself is made to."""

from __future__ import annotations

from taskq_sync.clock import Deadline
from taskq_sync.errors import JobCancelled, JobTimeout, LeaseLost, TaskQError
from taskq_sync.worker.attempts import LiveAttempt
from taskq_sync.worker.lifecycle import Lifecycle


def reason_to_end(attempt: LiveAttempt, limit: Deadline, lifecycle: Lifecycle) -> TaskQError | None:
    """Return what the handler of *attempt* would be told if it asked, as an error; None while it may go on.

    A lease that is only in doubt is no reason: a beat may still heal that.
    """
    job = attempt.job
    if attempt.cancel_requested:
        return JobCancelled(f"somebody cancelled job {job.job_id}")
    if attempt.lost:
        return LeaseLost(f"the lease of job {job.job_id} was lost")
    if lifecycle.handlers_must_end:
        return JobCancelled("the worker is stopping and no longer waits")
    if limit.expired:
        return JobTimeout(f"task {job.task} ran longer than {limit.seconds:g} s")
    return None
