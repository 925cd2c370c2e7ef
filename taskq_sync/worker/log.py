"""The log of a worker: one line for each event that a person should see.

Everything goes to the logger `taskq_sync.worker`, which the library leaves without handlers. Payloads and
results are never logged. What happens for every job is logged at DEBUG only, and costs nothing when that is
off at the start.
"""

from __future__ import annotations

import logging
import signal
from functools import partial
from types import TracebackType
from typing import Any

from taskq_sync.logs import job_fields
from taskq_sync.model import ClaimedJob
from taskq_sync.worker import events as of
from taskq_sync.worker.events import Events
from taskq_sync.worker.failures import headline, user_frames

logger = logging.getLogger("taskq_sync.worker")

#: So many names of unknown tasks are told of; whoever may enqueue can make more.
TOLD_TASKS = 1000

#: So many jobs are named in one line; the others are counted.
NAMED_JOBS = 5

#: Where the traceback begins in the text of an exception.
_TRACEBACK = "\n\nTraceback (most recent call last):\n"


def observe(events: Events) -> None:
    """Write the log of the worker whose events these are."""
    events.subscribe(of.WorkerStarted, _started)
    events.subscribe(of.StartRefused, _start_refused)
    events.subscribe(of.WorkerEnded, _ended)
    events.subscribe(of.StateChanged, _state_changed)
    events.subscribe(of.JobFailed, _job_failed)
    observe_hooks(events)
    events.subscribe(of.TaskUnknown, partial(_task_unknown, {}))
    events.subscribe(of.PayloadMisfit, partial(_payload_misfit, {}))
    events.subscribe(of.SuspectDied, _suspect_died)
    events.subscribe(of.ChildUnavailable, _child_unavailable)
    events.subscribe(of.VerdictRefused, _verdict_refused)
    events.subscribe(of.VerdictsUndelivered, _undelivered)
    events.subscribe(of.CheckpointRefused, _checkpoint_refused)
    events.subscribe(of.LeaseDoubtful, _doubtful)
    events.subscribe(of.LeaseWasLost, _lost)
    events.subscribe(of.BeatProcessEnded, _beat_process_ended)
    events.subscribe(of.BeatsWithheld, _beats_withheld)
    events.subscribe(of.CancelDelivered, _cancel_delivered)
    events.subscribe(of.SingletonTaken, _singleton_taken)
    events.subscribe(of.SingletonLost, _singleton_lost)
    events.subscribe(of.QueuesPaused, _paused)
    events.subscribe(of.QueuesLeftPaused, _left_paused)
    events.subscribe(of.Housekept, _housekept)
    events.subscribe(of.ChoreFailing, _chore_failing)
    events.subscribe(of.ListeningChanged, _listening_changed)
    events.subscribe(of.StillWaiting, _waiting)
    events.subscribe(of.StopHurried, _hurried)
    events.subscribe(of.ChildKilled, _child_killed)
    events.subscribe(of.HandlersStuck, _stuck)
    events.subscribe(of.HandlerStuck, _handler_stuck)
    events.subscribe(of.PartDied, _died)
    if logger.isEnabledFor(logging.DEBUG):
        events.subscribe(of.JobStarted, _job_started)
        events.subscribe(of.JobEnded, _job_ended)
        events.subscribe(of.JobsClaimed, _claimed)
        events.subscribe(of.JobsHandedBack, _handed_back)


def observe_hooks(events: Events) -> None:
    """Write the log of hooks only: all that a child process has to say by itself."""
    events.subscribe(of.HookFailed, _hook_failed)


def _name(job: ClaimedJob) -> str:
    return f"job {job.job_id} ({job.task}, attempt {job.attempt_count})"


def _fields(job: ClaimedJob) -> dict[str, Any]:
    """Return what marks a record as one about *job*, whose name its text has."""
    return {**job_fields(job), "job": ""}


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 60 or seconds % 60 else f"{seconds / 60:g} min"


def _info(
    error: BaseException | None,
) -> tuple[type[BaseException], BaseException, TracebackType | None] | None:
    """Return *error* for the log, without the frames that lead from this package to the program."""
    return None if error is None else (type(error), error, user_frames(error.__traceback__))


def _names(jobs: tuple[ClaimedJob, ...]) -> str:
    named = ", ".join(_name(job) for job in jobs[:NAMED_JOBS])
    return named if len(jobs) <= NAMED_JOBS else f"{named} and {len(jobs) - NAMED_JOBS} more"


def _started(event: of.WorkerStarted) -> None:
    queues = ", ".join(event.queues)
    logger.info("worker %s serves %s with %d slots", event.worker_id, queues, event.slots)


def _start_refused(event: of.StartRefused) -> None:
    logger.critical("the worker does not start: %s", event.error, exc_info=_info(event.error))


def _ended(event: of.WorkerEnded) -> None:
    level = logging.INFO if event.exit_code == 0 else logging.ERROR
    said = ""
    if event.failing:
        said = (
            f": {event.failing} {'jobs have' if event.failing > 1 else 'job has'} failed and did not recover"
        )
    logger.log(level, "worker %s ends with exit code %d%s", event.worker_id, event.exit_code, said)


def _state_changed(event: of.StateChanged) -> None:
    never_ran = (event.before, event.after) == ("starting", "stopped")
    unwanted = event.after == "degraded" or (never_ran and event.reason != of.ALREADY_RUNNING)
    level = logging.WARNING if unwanted else logging.INFO
    logger.log(level, "%s -> %s: %s", event.before, event.after, event.reason)


def _job_failed(event: of.JobFailed) -> None:
    if not logger.isEnabledFor(logging.WARNING):
        return
    job = event.job
    # The text of an exception has its traceback. Of one in a child process nothing else has come here.
    text, sign, trace = event.text.partition(_TRACEBACK)
    if event.error is not None:
        text = text.partition("\n")[0]
    which = f"{job.failure_count + 1} of {job.max_attempts}"
    tried = which if event.retryable else f"{which}, not to be tried again"
    record = logger.makeRecord(
        logger.name,
        logging.WARNING,
        __file__,
        0,
        "%s failed (%s): %s",
        (_name(job), tried, text),
        _info(event.error),
        extra=_fields(job),
    )
    if sign and event.error is None:
        record.exc_text = (sign + trace).strip()
    logger.handle(record)


def _hook_failed(event: of.HookFailed) -> None:
    job = event.job
    after = "" if job is None else f" after {_name(job)} had ended, which changes nothing for the job"
    logger.error(
        "%s failed%s: %s",
        event.hook,
        after,
        headline(event.error),
        exc_info=_info(event.error),
        extra={} if job is None else _fields(job),
    )


def _task_unknown(told: dict[str, int], event: of.TaskUnknown) -> None:
    """Tell of each name once: there may be a job of it every moment, for a whole deploy."""
    job = event.job
    # Atomic: of two slots that meet the same name at once, one tells of it.
    if len(told) >= TOLD_TASKS or told.setdefault(job.task, job.attempt_id) != job.attempt_id:
        return
    logger.warning(
        "no task %r is known here: %s is released for %.0f s, and so are others of it, each time for longer, up to "
        "10 min; import its module, or have another worker serve queue %s",
        job.task,
        _name(job),
        event.seconds,
        job.queue,
        extra=_fields(job),
    )


def _payload_misfit(told: dict[str, int], event: of.PayloadMisfit) -> None:
    """Tell of each task once, as of unknown ones."""
    job = event.job
    if len(told) >= TOLD_TASKS or told.setdefault(job.task, job.attempt_id) != job.attempt_id:
        return
    logger.warning(
        "the payload of %s does not fit: %s. It is put back for 1 min, and so are others of this task, for a newer "
        "worker; a job older than %s (payload_grace) fails",
        _name(job),
        event.reason,
        _span(event.grace),
        extra=_fields(job),
    )


def _suspect_died(event: of.SuspectDied) -> None:
    logger.error(
        "%s: %s; the job is left to its lease", _name(event.job), event.death, extra=_fields(event.job)
    )


def _child_unavailable(event: of.ChildUnavailable) -> None:
    logger.error(
        "%s belongs into a child process: %s; %s",
        _name(event.job),
        event.reason.rstrip(),
        event.consequence,
        extra=_fields(event.job),
    )


def _verdict_refused(event: of.VerdictRefused) -> None:
    reason = f": {event.reason}" if event.reason else ""
    logger.error(
        "%s of %s is %s%s; %s",
        event.verb,
        _name(event.job),
        event.result,
        reason,
        event.consequence,
        extra=_fields(event.job),
    )


def _undelivered(event: of.VerdictsUndelivered) -> None:
    logger.error("%d verdicts were not delivered; their jobs are left to their leases", event.count)


def _checkpoint_refused(event: of.CheckpointRefused) -> None:
    logger.error(
        "a checkpoint of %s is too large and was not stored", _name(event.job), extra=_fields(event.job)
    )


def _doubtful(event: of.LeaseDoubtful) -> None:
    logger.warning(
        "the lease of %s is in doubt: no beat has arrived in time. If the database was there, a handler keeps the "
        "interpreter to itself: see --heartbeat process",
        _name(event.job),
        extra=_fields(event.job),
    )


def _lost(event: of.LeaseWasLost) -> None:
    logger.warning(
        "the lease of %s was lost: its verdict will not count", _name(event.job), extra=_fields(event.job)
    )


def _beat_process_ended(event: of.BeatProcessEnded) -> None:
    logger.error("the heartbeat process is gone: %s; another one is started", event.reason.rstrip())


def _beats_withheld(event: of.BeatsWithheld) -> None:
    logger.critical(
        "the main thread has given no sign for %g s, so no heartbeats are sent: the jobs are left to their leases",
        event.seconds,
    )


def _cancel_delivered(event: of.CancelDelivered) -> None:
    logger.info("%s was cancelled; its handler is told", _name(event.job), extra=_fields(event.job))


def _singleton_taken(event: of.SingletonTaken) -> None:
    logger.info("another worker runs as singleton %s, so this one ends", event.singleton)


def _singleton_lost(event: of.SingletonLost) -> None:
    logger.warning("the lock of singleton %s was lost, so the worker stops: %s", event.singleton, event.error)


def _paused(event: of.QueuesPaused) -> None:
    if event.resumed:
        logger.info("%s resumed", _queues(event.resumed))
    if event.queues:
        logger.info("%s paused", _queues(event.queues))


def _left_paused(event: of.QueuesLeftPaused) -> None:
    logger.warning("%s paused: no job of it was looked at", _queues(event.queues))


def _queues(names: tuple[str, ...]) -> str:
    return f"queue {names[0]} is" if len(names) == 1 else f"the queues {', '.join(names)} are"


def _housekept(event: of.Housekept) -> None:
    if not event.job_ids:
        logger.debug("%s: %d", event.chore, event.count)
        return
    more = event.count - NAMED_JOBS
    named = ", ".join(map(str, event.job_ids[:NAMED_JOBS])) + (f" and {more} more" if more > 0 else "")
    logger.warning(
        "took back %s, whose lease had run out: the worker is gone, or was not heard of in time",
        f"job {named}" if event.count == 1 else f"{event.count} jobs: {named}",
    )


def _chore_failing(event: of.ChoreFailing) -> None:
    if event.error is None:
        logger.info("housekeeping works again: %s", event.chore)
    else:
        logger.warning("housekeeping fails and is tried again: %s: %s", event.chore, event.error)


def _listening_changed(event: of.ListeningChanged) -> None:
    if event.listening:
        logger.info("listening for notifications")
    else:
        logger.warning("no notifications, looking more often instead: %s", event.error)


def _waiting(event: of.StillWaiting) -> None:
    seconds = "as long as it takes" if event.seconds is None else f"up to {event.seconds:.0f} s"
    logger.info("waiting %s for %s", seconds, _names(event.jobs))


def _hurried(event: of.StopHurried) -> None:
    what = event.reason if event.reason in signal.Signals.__members__ else "request to stop"
    logger.warning("second %s: waiting no longer", what)


def _child_killed(event: of.ChildKilled) -> None:
    logger.error(
        "%s did not end: its child process was killed and the job released",
        _name(event.job),
        extra=_fields(event.job),
    )


def _stuck(event: of.HandlersStuck) -> None:
    for job, stack in zip(event.jobs, event.stacks, strict=True):
        logger.error(
            "%s will not end and is released; its thread is at\n%s",
            _name(job),
            stack.rstrip(),
            extra=_fields(job),
        )


def _handler_stuck(event: of.HandlerStuck) -> None:
    then = "its slot gets another one" if event.stuck <= event.allowed else "the worker stops"
    logger.error(
        "%s does not end after its time limit; its thread is given up, the %d. of at most %d, and %s. It is at\n%s",
        _name(event.job),
        event.stuck,
        event.allowed,
        then,
        event.stack.rstrip(),
        extra=_fields(event.job),
    )


def _died(event: of.PartDied) -> None:
    logger.critical("%s died, so the worker stops", event.part, exc_info=event.error)


def _job_started(event: of.JobStarted) -> None:
    logger.debug("%s starts", _name(event.job), extra=_fields(event.job))


def _job_ended(event: of.JobEnded) -> None:
    verb = "no verdict is needed" if event.verdict is None else event.verdict.verb
    logger.debug("%s ended after %.3f s: %s", _name(event.job), event.seconds, verb, extra=_fields(event.job))


def _claimed(event: of.JobsClaimed) -> None:
    logger.debug("claimed %d jobs in %.3f s", event.count, event.seconds)


def _handed_back(event: of.JobsHandedBack) -> None:
    logger.debug("handed back %d jobs: %s", event.count, event.reason)
