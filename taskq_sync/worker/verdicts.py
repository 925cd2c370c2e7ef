"""How an attempt is to end: what a handler returned or raised, as a verdict for the database.

===========================================  ====================================================
the handler                                  the verdict
===========================================  ====================================================
returns `Complete`, or a plain value         complete
returns or raises `Snooze`, `Cancel`         snooze, cancel
returns or raises `Retry`, `NonRetryable`    fail, retryable or not
raises anything else, `SystemExit` too       fail, as the policy of the task says
is kept from running by a hook               fail, to be retried: the policy is for the handler
raises `JobCancelled` after a request        cancel; while the worker gives up waiting, release
raises `LeaseLost` from its context          release, without cost: the outage was not its fault
returns what cannot be stored                fail for good `invalid_result`, or complete without it
returns follow-ups                           fail for good `followup_rejected`
is not there                                 release, for 30 s at first, later up to 10 min
has killed its child process                 fail; a suspect gets no verdict at all
needs a child process and there is none      release for 30 s
does not fit the payload                     release for 60 s in the first minutes, then fail for
                                             good `invalid_payload`
===========================================  ====================================================

Every function here is pure, except that writing a result as JSON may run code of the user's, and that a pause has
jitter.
"""

from __future__ import annotations

import json
from datetime import timedelta

from taskq_sync import codec
from taskq_sync.backoff import pause
from taskq_sync.errors import HookError, JobCancelled, LeaseLost, PayloadError
from taskq_sync.model import ClaimedJob, Verdict
from taskq_sync.outcome import Cancel, Complete, NonRetryable, Outcome, Retry, Snooze
from taskq_sync.registry import TaskSpec
from taskq_sync.worker.attempts import LiveAttempt
from taskq_sync.worker.failures import headline

MAX_RESULT_BYTES = 8192
MAX_PROGRESS_BYTES = 2048

#: The pauses of a job whose task this worker does not know, in seconds.
UNKNOWN_TASK_PAUSE = 30.0
UNKNOWN_TASK_PAUSE_CAP = 600.0

#: The pause of a job whose payload may be meant for a newer worker.
INVALID_PAYLOAD_PAUSE = timedelta(seconds=60)

#: The pause of a job for which no child process could be started.
NO_CHILD_PAUSE = timedelta(seconds=30)

#: The pause of a job whose handler a stopping worker could not wait for.
SHUTDOWN_PAUSE = timedelta(seconds=5)

#: How the cause of a release and the error of a failure begin when the payload does not fit.
_INVALID_PAYLOAD = "invalid_payload: "

#: The cause of a release by which the attempt leaves no trace; the schema knows it, too.
_NOT_STARTED = "not_started"


def of_value(attempt: LiveAttempt, spec: TaskSpec, value: object) -> Verdict:
    """Return the verdict for what the handler returned, or for the outcome it raised. Does not raise."""
    if value is None:
        return Verdict.complete(attempt.job.job_id, attempt.fence)
    if isinstance(value, Outcome):
        if isinstance(value, Complete):
            return _completed(attempt.job, spec, value)
        return _of_outcome(attempt, value)
    return _with_result(attempt.job, spec, value)


def of_exception(
    attempt: LiveAttempt, spec: TaskSpec, error: BaseException, text: str, *, giving_up: bool
) -> Verdict:
    """Return the verdict for an exception that is no outcome; *text* is its description.

    *giving_up*: the worker no longer waits for its handlers.
    """
    job = attempt.job
    if isinstance(error, JobCancelled) and attempt.cancel_requested:
        return Verdict.cancel(job.job_id, job.attempt_id)
    if isinstance(error, JobCancelled) and giving_up:
        return given_up(attempt)
    if isinstance(error, LeaseLost) and attempt.doubtful:
        return _release(attempt, cause="lease_doubtful")
    if isinstance(error, HookError):
        return _fail(job, text, progress=attempt.unsent_checkpoint)
    policy = spec.policy(error)
    return _fail(
        job, text, retryable=policy.retryable, after=policy.after, progress=attempt.unsent_checkpoint
    )


def pause_of_unknown_task(job: ClaimedJob) -> float:
    """Return for how many seconds a job is released whose task is not registered here: longer each time."""
    claims_without_failure = job.attempt_count - job.failure_count
    return pause(claims_without_failure, base=UNKNOWN_TASK_PAUSE, cap=UNKNOWN_TASK_PAUSE_CAP)


def of_unknown_task(job: ClaimedJob, seconds: float) -> Verdict:
    """Return the verdict for a job whose task is not registered here; another worker may know it."""
    return Verdict.release(
        job.job_id, job.attempt_id, delay=timedelta(seconds=seconds), cause=f"unknown_task: {job.task}"
    )


def of_invalid_payload(job: ClaimedJob, spec: TaskSpec, error: PayloadError) -> Verdict:
    """Return the verdict for a payload that the task cannot take.

    While the job is young it may have been enqueued by a newer program whose workers are still to come.
    """
    claimed_at = job.lease_expires_at - job.lease  # both by the clock of the database, as created_at
    if claimed_at - job.created_at < spec.payload_grace:
        return Verdict.release(
            job.job_id, job.attempt_id, delay=INVALID_PAYLOAD_PAUSE, cause=f"{_INVALID_PAYLOAD}{error}"
        )
    return _fail(job, f"{_INVALID_PAYLOAD}{error}", retryable=False)


def misfit(verdict: Verdict) -> str | None:
    """Return what does not fit, if *verdict* puts a job back because of its payload; else None."""
    if verdict.verb != "release" or "cause" not in verdict.members:
        return None
    _, sign, reason = str(json.loads(verdict.members["cause"])).partition(_INVALID_PAYLOAD)
    return reason if sign else None


def of_unknown_commit(job: ClaimedJob) -> Verdict:
    """Return the verdict for an attempt whose own transaction may or may not have completed it.

    If it has, the database answers that the attempt is settled; if it has not, the job is run again.
    """
    return _fail(job, "commit_unknown: the link broke during the COMMIT of the handler's transaction")


def of_death(attempt: LiveAttempt, death: str) -> Verdict:
    """Return the verdict for an attempt that has ended its own child process; *death* says how."""
    return _fail(attempt.job, death, progress=attempt.unsent_checkpoint)


def of_no_child(job: ClaimedJob) -> Verdict:
    """Return the verdict for a job that must run in a child process when none can be started."""
    return Verdict.release(job.job_id, job.attempt_id, delay=NO_CHILD_PAUSE, cause="no_child_process")


def cancelled(job: ClaimedJob) -> Verdict:
    """Return the verdict for a job that somebody cancelled before its handler was started."""
    return Verdict.cancel(job.job_id, job.attempt_id)


def not_started(job: ClaimedJob) -> Verdict:
    """Return the verdict that hands a job back as if it had never been claimed."""
    return Verdict.release(job.job_id, job.attempt_id, cause=_NOT_STARTED)


def is_not_started(verdict: Verdict) -> bool:
    """Return whether *verdict* is one of `not_started`."""
    return verdict.verb == "release" and verdict.members.get("cause") == f'"{_NOT_STARTED}"'


def given_up(attempt: LiveAttempt) -> Verdict:
    """Return the verdict for a handler that a stopping worker does not wait for; keeps its checkpoint."""
    return _release(attempt, cause="worker_shutdown", delay=SHUTDOWN_PAUSE)


def amended(spec: TaskSpec | None, verdict: Verdict, reason: str) -> Verdict | None:
    """Return what to ask for after the database has rejected *verdict* because of *reason*; None = nothing.

    Sizes and delays are checked before anything is sent, so this is for what only the database can tell.
    """
    if verdict.verb == "complete" and "result" in verdict.members:
        return _without_result(verdict.job_id, verdict.attempt_id, spec, reason)
    if verdict.verb == "snooze":
        return Verdict.fail(verdict.job_id, verdict.attempt_id, error=f"invalid_outcome: {reason}")
    keep = {"fail": ("error", "retryable"), "release": ("delay", "cause")}.get(verdict.verb, ())
    members = {name: text for name, text in verdict.members.items() if name in keep}
    if not keep or len(members) == len(verdict.members):
        return None
    return Verdict(verdict.job_id, verdict.attempt_id, verdict.verb, members)


def result_text(value: object) -> str | None:
    """Return a result as JSON text, None for null. Raises `PayloadError` for one that cannot be stored."""
    return None if value is None else _json(value, "the result", MAX_RESULT_BYTES)


def progress_text(value: object) -> str:
    """Return a checkpoint as JSON text. Raises `PayloadError` for one that cannot be stored."""
    return _json(value, "the checkpoint", MAX_PROGRESS_BYTES)


def _json(value: object, what: str, cap: int) -> str:
    try:
        text = codec.to_json(value, what)
    except PayloadError:
        raise
    except BaseException as error:  # an object may break whoever looks at it
        raise PayloadError(f"{what} cannot be stored as JSON: {headline(error)}") from error
    # A character has one byte or more: a text far over the cap is not encoded only to be measured.
    size = len(text) if len(text) > cap else len(text.encode())
    if size > cap:
        raise PayloadError(
            f"{what} has {size} bytes, the cap is {cap}",
            hint="store it elsewhere and keep a reference",
        )
    return text


def _completed(job: ClaimedJob, spec: TaskSpec, outcome: Complete) -> Verdict:
    if outcome.followups:
        return _fail(job, "followup_rejected: follow-ups do not exist yet", retryable=False)
    return _with_result(job, spec, outcome.result)


def _with_result(job: ClaimedJob, spec: TaskSpec, value: object) -> Verdict:
    if value is None:
        return Verdict.complete(job.job_id, job.attempt_id)
    try:
        text = result_text(value)
    except PayloadError as error:
        return _without_result(job.job_id, job.attempt_id, spec, str(error))
    return Verdict.complete(job.job_id, job.attempt_id, result_json=text)


def _without_result(job_id: int, attempt_id: int, spec: TaskSpec | None, reason: str) -> Verdict:
    if spec is not None and spec.result == "discard":
        return Verdict.complete(job_id, attempt_id)
    return Verdict.fail(job_id, attempt_id, error=f"invalid_result: {reason}", retryable=False)


def _of_outcome(attempt: LiveAttempt, outcome: Outcome) -> Verdict:
    job = attempt.job
    if isinstance(outcome, Cancel):
        return Verdict.cancel(job.job_id, job.attempt_id, reason=outcome.reason)
    if not isinstance(outcome, (Snooze, Retry, NonRetryable)):
        return _fail(job, f"invalid_outcome: {type(outcome).__name__} is none of the five", retryable=False)
    try:
        progress = _progress_of(attempt, outcome.progress)
    except PayloadError as error:
        return _fail(job, f"invalid_progress: {error}", retryable=False)
    if isinstance(outcome, Snooze):
        return Verdict.snooze(
            job.job_id, job.attempt_id, delay=outcome.delay, reason=outcome.reason, progress_json=progress
        )
    if isinstance(outcome, Retry):
        return _fail(
            job, outcome.error or "the handler asked for a retry", after=outcome.after, progress=progress
        )
    return _fail(job, outcome.error, retryable=False, progress=progress)


def _progress_of(attempt: LiveAttempt, value: object) -> str | None:
    return attempt.unsent_checkpoint if value is None else progress_text(value)


def _release(attempt: LiveAttempt, *, cause: str, delay: timedelta = timedelta(0)) -> Verdict:
    job = attempt.job
    progress = attempt.unsent_checkpoint
    return Verdict.release(job.job_id, job.attempt_id, delay=delay, cause=cause, progress_json=progress)


def _fail(
    job: ClaimedJob,
    error: str,
    *,
    retryable: bool = True,
    after: timedelta | None = None,
    progress: str | None = None,
) -> Verdict:
    return Verdict.fail(
        job.job_id,
        job.attempt_id,
        error=error,
        retryable=retryable,
        retry_after=after,
        progress_json=progress,
    )
