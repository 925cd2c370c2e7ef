"""Running the program's hooks: around each handler, and at the start and end of a process.

===================================  ========================================================================
a hook that raises                   means
===================================  ========================================================================
`around_job` before its yield,       the handler is not run, and the attempt fails with `HookError`. What a
`before_job`                         handler raises to end its attempt means the same here: an outcome, and
                                     what `ctx.raise_if_cancelled()` raises
`on_failure`, `after_job`,           nothing for the job: the handler has ended. It is reported
`around_job` from its yield on
`on_worker_start`                    the process does not serve
`on_worker_stop`                     nothing; it is reported
===================================  ========================================================================

No interrupt reaches a hook: it belongs to the handler alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from taskq_sync.context import JobContext
from taskq_sync.errors import HookError, JobCancelled, JobTimeout, LeaseLost
from taskq_sync.hooks import AttemptEnd, Hook, Hooks, WorkerProcess
from taskq_sync.outcome import Outcome
from taskq_sync.worker.events import Events, HookFailed
from taskq_sync.worker.failures import headline, user_frames

#: What means the same in a hook before the handler as in the handler.
_WAYS_TO_END = (Outcome, JobCancelled, JobTimeout, LeaseLost)


class JobHooks:
    """The hooks of one attempt, in the thread of its handler."""

    def __init__(self, hooks: Hooks, ctx: JobContext, events: Events) -> None:
        self._hooks = hooks
        self._ctx = ctx
        self._events = events
        self._entered: list[tuple[Hook, AbstractContextManager[object]]] = []

    def begin(self) -> None:
        """Run what comes before the handler. Raises `HookError`, or what ends the attempt in another way."""
        for hook in self._hooks.around:
            manager = self._before(hook, hook.call, self._ctx)
            if not isinstance(manager, AbstractContextManager):
                raise HookError(f"{hook} returned {type(manager).__name__}, which is no context manager")
            self._before(hook, manager.__enter__)
            self._entered.append((hook, manager))
        for hook in self._hooks.before:
            self._before(hook, hook.call, self._ctx)

    def failed(self, error: BaseException) -> None:
        """The attempt has failed with *error*."""
        for hook in reversed(self._hooks.failure):
            self._tell(hook, error)

    def ended(self, end: AttemptEnd) -> None:
        """The attempt has ended."""
        for hook in reversed(self._hooks.after):
            self._tell(hook, end)

    def leave(self, error: BaseException | None) -> None:
        """Leave what was entered; each sees what the handler raised, if anything, and nothing of the others."""
        for hook, manager in reversed(self._entered):
            try:
                if error is None:
                    manager.__exit__(None, None, None)
                else:
                    manager.__exit__(type(error), error, error.__traceback__)
            except BaseException as fault:  # the border to user code
                if fault is not error:
                    self._report(hook, fault)

    def _before(self, hook: Hook, call: Callable[..., object], *arguments: object) -> object:
        """Return what *call* returns: the *hook*, or the context manager that it has made."""
        try:
            return call(*arguments)
        except _WAYS_TO_END:
            raise
        except BaseException as fault:  # the border to user code
            raise _failure(hook, fault) from fault

    def _tell(self, hook: Hook, what: object) -> None:
        try:
            hook.call(self._ctx, what)
        except BaseException as fault:  # the border to user code
            self._report(hook, fault)

    def _report(self, hook: Hook, fault: BaseException) -> None:
        self._events.emit(HookFailed(hook=str(hook), error=fault, job=self._ctx.job))


def start_worker(hooks: Hooks, process: WorkerProcess) -> None:
    """Run the hooks of a process that is about to serve. Raises `HookError` for the first that raises anything."""
    for hook in hooks.worker_start:
        try:
            hook.call(process)
        except BaseException as fault:  # the border to user code
            raise _failure(hook, fault) from fault


def stop_worker(hooks: Hooks, process: WorkerProcess, events: Events) -> None:
    """Run the hooks of a process that no longer serves. Does not raise."""
    for hook in reversed(hooks.worker_stop):
        try:
            hook.call(process)
        except BaseException as fault:  # the border to user code
            events.emit(HookFailed(hook=str(hook), error=fault, job=None))


def _failure(hook: Hook, fault: BaseException) -> HookError:
    """Return what is raised from *fault*, which loses the frames that lead from this package to the program."""
    fault.__traceback__ = user_frames(fault.__traceback__)
    return HookError(f"{hook} raised {headline(fault)}")
