"""What a handler that asks for it gets as its first argument.

::

    @tq.task(queue="export")
    def export(ctx: JobContext, account_id: int) -> Complete:
        for page in pages(account_id, after=ctx.progress):
            write(page)
            ctx.checkpoint(page.last_id)     # where the next attempt goes on
            if ctx.should_stop:
                raise Snooze(1)

The classes here only say what there is; the worker implements them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from taskq_sync.clock import Deadline
from taskq_sync.model import ClaimedJob, JsonValue


class JobContext(ABC):
    """The attempt that is running, seen from its handler. May be used by threads of the handler."""

    @property
    @abstractmethod
    def job(self) -> ClaimedJob:
        """The job as it was claimed."""

    @property
    @abstractmethod
    def attempt(self) -> int:
        """The number of this attempt: 1 for the first claim of the job."""

    @property
    @abstractmethod
    def fence(self) -> int:
        """A number that is greater for every later attempt of the job.

        Hand it to an outside system that refuses a smaller one than it has seen: then an attempt that lost
        its lease without noticing cannot overwrite what its successor did.
        """

    @property
    @abstractmethod
    def deadline(self) -> Deadline:
        """When the time limit of the task runs out, by the clock of this machine; never if it has none."""

    @property
    @abstractmethod
    def progress(self) -> JsonValue:
        """The latest checkpoint, of this attempt or of one before; None when there is none."""

    @abstractmethod
    def checkpoint(self, value: object, *, flush: bool = False) -> None:
        """Keep *value* (JSON, 2 KiB) for the next attempt; it travels with the next beat or with the verdict.

        With *flush* it is stored before the call returns; this may block for a few seconds. Raises
        `PayloadError` for what cannot be stored, `LeaseLost` when the attempt no longer owns the job.
        """

    @property
    @abstractmethod
    def should_stop(self) -> bool:
        """Whether the handler should come to an end. Blocks as `cancelled` does.

        True when the worker is stopping and no longer waits, when the time limit has passed, and when `cancelled`.
        """

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether somebody cancelled the job, or its lease is in doubt.

        Never waits for the database. Does not block, except with a heartbeat by process when the lease may have run
        out: then up to 6 s for what that process has heard.
        """

    @abstractmethod
    def raise_if_cancelled(self) -> None:
        """Raise what `should_stop` means, if it is true.

        `JobCancelled`: somebody cancelled the job, or the worker is stopping and no longer waits (the job is then
        run again, without cost to its budget). `LeaseLost`: its lease is in doubt. `JobTimeout`: its time limit
        has passed.
        """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[JobTransaction]:
        """Open a transaction in which the handler's rows and the completion of the job commit together.

        Leaving the block completes the job (with null unless `tx.complete` was called) and commits; an
        exception rolls everything back. At most once for an attempt. Blocks until a connection is free.
        Raises `DatabaseUnavailable`, and `LeaseLost` when the fence no longer holds: then nothing was
        committed.
        """


class JobTransaction(ABC):
    """An open transaction at read committed; see `JobContext.transaction`."""

    @property
    @abstractmethod
    def connection(self) -> Any:  # psycopg.Connection; only taskq_sync.db may import its type
        """The psycopg connection, for libraries that want one and for `task.using(connection=...)`.

        Do not commit or roll back.
        """

    @abstractmethod
    def execute(
        self, sql: str, params: Mapping[str, object] | Sequence[object] | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Run a statement in the form of psycopg (`%s`, `%(name)s`) and return its rows, none if it has none.

        Errors of the driver pass unchanged.
        """

    @abstractmethod
    def complete(self, result: object = None) -> None:
        """Say with which result the job is completed when the block ends. Raises `PayloadError`."""
