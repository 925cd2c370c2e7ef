"""The runner: one attempt, from its payload to its verdict.

Whatever a handler does (return nonsense, raise `SystemExit`, raise an exception that breaks whoever looks at
it), a verdict comes out, and the slot goes on with the next job.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from taskq_sync import codec
from taskq_sync.clock import Deadline, monotonic
from taskq_sync.errors import PayloadError
from taskq_sync.hooks import AttemptEnd
from taskq_sync.interrupts import Guard
from taskq_sync.logs import current_job
from taskq_sync.model import ClaimedJob, Verdict
from taskq_sync.outcome import NonRetryable, Outcome, Retry
from taskq_sync.registry import Registry, TaskSpec
from taskq_sync.worker import verdicts
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.context import WorkerContext
from taskq_sync.worker.events import Events, JobEnded, JobFailed, JobStarted, PayloadMisfit, TaskUnknown
from taskq_sync.worker.failures import describe, headline
from taskq_sync.worker.hooks import JobHooks
from taskq_sync.worker.isolation import Isolation
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.pauses import Pauses
from taskq_sync.worker.time_limits import TimeLimits
from taskq_sync.worker.transaction import Transactions

#: Of a child process that comes back from the handler in which it was forked.
FORKED_EXIT_CODE = 70

_NO_LIMIT = Deadline.never()

# To look a member up in its Enum takes ten times as long as a name of the module, and some are needed for every job.
_RUNNING = Stage.RUNNING
_ENDED = Stage.ENDED


class Runner:
    """Runs attempts in whatever thread calls it. Holds no state, so all slots share one."""

    def __init__(
        self,
        *,
        registry: Registry,
        attempts: Attempts,
        settle: Callable[[LiveAttempt, Verdict], None],
        transactions: Transactions,
        pauses: Pauses,
        lifecycle: Lifecycle,
        events: Events,
        isolation: Isolation | None = None,
        limits: TimeLimits | None = None,
    ) -> None:
        """*settle* takes each verdict; it must not block. Without *isolation* everything runs in the caller,
        without *limits* nothing is interrupted."""
        self._registry = registry
        self._hooks = registry.hooks
        self._attempts = attempts
        self._settle = settle
        self._isolation = isolation
        self._limits = limits
        self._transactions = transactions
        self._pauses = pauses
        self._lifecycle = lifecycle
        self._events = events

    def run(self, attempt: LiveAttempt) -> bool:
        """Run *attempt*, which the caller has taken, and hand its verdict over. Never raises.

        Return whether the thread has been given up meanwhile, because it was stuck.
        """
        attempt.started_at = monotonic()
        current_job.set(attempt.job)
        self._run(attempt)
        current_job.set(None)
        return self._limits is not None and self._limits.leave(attempt)

    def _run(self, attempt: LiveAttempt) -> None:
        try:
            verdict = self._judge(attempt)
        except BaseException as error:  # the last border of the slot
            verdict = Verdict.fail(attempt.job.job_id, attempt.fence, error=headline(error))
        if attempt.given_up:  # the worker has released it already, and is about to leave
            return
        attempt.stage = _ENDED
        if verdict is None:
            self._attempts.remove([attempt.fence])
        else:
            if attempt.beaten_until != math.inf:
                self._attempts.limit(attempt, math.inf)
            self._settle(attempt, verdict)
        if self._events.wanted(JobEnded):
            seconds = monotonic() - attempt.started_at
            self._events.emit(JobEnded(job=attempt.job, verdict=verdict, seconds=seconds))

    def amend(self, attempt: LiveAttempt, verdict: Verdict, reason: str) -> Verdict | None:
        """Return another verdict for one that the database has rejected, or None."""
        return verdicts.amended(self._registry.find(attempt.job.task), verdict, reason)

    def _judge(self, attempt: LiveAttempt) -> Verdict | None:
        """Return the verdict, None when the handler's own transaction has completed the job."""
        job = attempt.job
        if attempt.cancel_requested:
            return verdicts.cancelled(job)
        if self._lifecycle.stopping or job.queue in self._pauses.queues:
            return verdicts.not_started(job)
        spec = self._registry.find(job.task)
        if spec is None:
            seconds = verdicts.pause_of_unknown_task(job)
            self._events.emit(TaskUnknown(job=job, seconds=seconds))
            return verdicts.of_unknown_task(job, seconds)
        # Before the payload is looked at: restoring it may run code of the user's, too.
        if self._isolation is not None and self._isolation.wants(attempt, spec):
            return self._run_isolated(self._isolation, attempt, spec)
        try:
            arguments = spec.structure(codec.from_json(job.payload_json))
        except PayloadError as error:
            verdict = verdicts.of_invalid_payload(job, spec, error)
            self._report_misfit(job, spec, verdict)
            self._report_failure(job, verdict, None)
            return verdict
        return self._run_handler(attempt, spec, arguments)

    def _run_isolated(self, isolation: Isolation, attempt: LiveAttempt, spec: TaskSpec) -> Verdict | None:
        if self._events.wanted(JobStarted):
            self._events.emit(JobStarted(job=attempt.job))
        verdict = isolation.run(attempt, spec)
        if verdict is not None:
            self._report_misfit(attempt.job, spec, verdict)
            self._report_failure(attempt.job, verdict, None)
        return verdict

    def _run_handler(
        self, attempt: LiveAttempt, spec: TaskSpec, arguments: Mapping[str, Any]
    ) -> Verdict | None:
        if self._events.wanted(JobStarted):
            self._events.emit(JobStarted(job=attempt.job))
        limit = _NO_LIMIT
        if spec.timeout is not None:
            limit = Deadline.after(spec.timeout.total_seconds())
            self._attempts.limit(attempt, limit.at)
        guard = None if self._limits is None else self._limits.watch(attempt, spec, limit)
        if self._hooks.of_jobs:
            return self._run_with_hooks(attempt, spec, arguments, self._context(attempt, limit), guard)
        context = self._context(attempt, limit) if spec.wants_context else None
        try:
            value = self._call(spec, arguments, context, guard)
        except BaseException as error:  # SystemExit and its like are the handler's failure, not the slot's
            return self._verdict(attempt, spec, None, error)
        return self._verdict(attempt, spec, value, None)

    def _run_with_hooks(
        self,
        attempt: LiveAttempt,
        spec: TaskSpec,
        arguments: Mapping[str, Any],
        context: WorkerContext,
        guard: Guard | None,
    ) -> Verdict | None:
        hooks = JobHooks(self._hooks, context, self._events)
        process = os.getpid()
        value: object = None
        error: BaseException | None = None
        try:
            try:
                hooks.begin()
                _end_if_forked(process)
                value = self._call(spec, arguments, context, guard)
            except BaseException as fault:
                error = fault
            seconds = monotonic() - attempt.started_at
            verdict = self._verdict(attempt, spec, value, error)
            if verdict is not None and verdict.verb == "fail":
                hooks.failed(_cause(verdict, value if error is None else error))
            verb = _verb(attempt, verdict)
            hooks.ended(AttemptEnd(verb=verb, value=value, error=error, seconds=seconds))
            hooks.leave(error)
            return verdict
        finally:
            _end_if_forked(process)
            del error  # it holds this frame, which would hold it

    def _call(
        self, spec: TaskSpec, arguments: Mapping[str, Any], context: WorkerContext | None, guard: Guard | None
    ) -> object:
        process = os.getpid()
        try:
            if guard is None:
                return spec.call(context, arguments)
            return guard.run(lambda: spec.call(context, arguments))
        finally:
            _end_if_forked(process)

    def _verdict(
        self, attempt: LiveAttempt, spec: TaskSpec, value: object, error: BaseException | None
    ) -> Verdict | None:
        """Return the verdict for what the handler returned, or for the *error* that it raised."""
        if error is None or isinstance(error, Outcome):
            verdict = verdicts.of_value(attempt, spec, value if error is None else error)
            if verdict.verb == "fail":
                self._report_failure(attempt.job, verdict, None)
        else:
            giving_up = self._lifecycle.handlers_must_end
            verdict = verdicts.of_exception(attempt, spec, error, describe(error), giving_up=giving_up)
            self._report_failure(attempt.job, verdict, error)
        if attempt.commit_unknown:
            return verdicts.of_unknown_commit(attempt.job)
        return verdict if attempt.stage is _RUNNING else None

    def _context(self, attempt: LiveAttempt, limit: Deadline) -> WorkerContext:
        return WorkerContext(
            attempt,
            deadline=limit,
            attempts=self._attempts,
            lifecycle=self._lifecycle,
            transactions=self._transactions,
        )

    def _report_misfit(self, job: ClaimedJob, spec: TaskSpec, verdict: Verdict) -> None:
        reason = verdicts.misfit(verdict)
        if reason is not None:
            self._events.emit(PayloadMisfit(job=job, reason=reason, grace=spec.payload_grace.total_seconds()))

    def _report_failure(self, job: ClaimedJob, verdict: Verdict, error: BaseException | None) -> None:
        if verdict.verb == "fail" and self._events.wanted(JobFailed):
            self._events.emit(
                JobFailed(
                    job=job,
                    text=json.loads(verdict.members["error"]),
                    error=error,
                    retryable="retryable" not in verdict.members,
                )
            )


def _verb(attempt: LiveAttempt, verdict: Verdict | None) -> str:
    """Return how an attempt ends, for hooks."""
    if attempt.lost:
        return "lost"
    if attempt.given_up:
        return "release"
    return "complete" if verdict is None else verdict.verb


def _cause(verdict: Verdict, ended_by: object) -> BaseException:
    """Return the error of a failed attempt, for hooks: what was raised, or an outcome that says the same."""
    if isinstance(ended_by, (Retry, NonRetryable)):
        return ended_by
    if isinstance(ended_by, BaseException) and not isinstance(ended_by, Outcome):
        return ended_by
    text = json.loads(verdict.members["error"])
    return NonRetryable(text) if "retryable" in verdict.members else Retry(error=text)


def _end_if_forked(process: int) -> None:
    """The program has forked, and this is the child: a copy of the worker with one thread and the connections of
    its parent. It must not go on."""
    if os.getpid() != process:
        os._exit(FORKED_EXIT_CODE)
