"""The options of a worker: meaning, unit and default of each; checked when they are given."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, TypedDict

import attrs
from attrs import field, frozen

from taskq_sync.clock import as_duration
from taskq_sync.errors import ConfigError, InvalidInput
from taskq_sync.options import MAX_LEASE, MIN_LEASE, check_name, check_text
from taskq_sync.worker.application import Application
from taskq_sync.worker.membership import Membership

#: The lease of a job that was enqueued without one, in seconds; what a configured beat is compared with.
DEFAULT_LEASE = 60.0

#: The longest of all durations, in seconds: ten years. There are some that a system cannot wait for.
MAX_SECONDS = 10 * 365 * 86400.0

MAX_SLOTS = 1000
MAX_QUEUES = 100
MAX_WEIGHT = 1000
MAX_WORKER_ID_BYTES = 255
MAX_SINGLETON_BYTES = 255

_HOST_LENGTH = 24


def new_worker_id() -> str:
    """Return an identity for one start of one process: `host-pid-random`.

    No two starts share it, not even on one host with one pid, so nothing is taken for its own forerunner.
    """
    host = socket.gethostname().partition(".")[0][:_HOST_LENGTH] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


def _weights(value: Mapping[str, int] | Iterable[str]) -> Mapping[str, int]:
    if isinstance(value, str):
        raise ConfigError(f"queues must be a list of names, it is the text {value!r}")
    return dict(value) if isinstance(value, Mapping) else dict.fromkeys(value, 1)


def _seconds(value: float | timedelta) -> float:
    """Return a duration in seconds. What is none is left to the validator, which knows its name."""
    try:
        return as_duration(value, "").total_seconds()
    except InvalidInput:
        return value  # type: ignore[return-value]


def _seconds_or_none(value: float | timedelta | None) -> float | None:
    return None if value is None else _seconds(value)


def _whole(low: int, high: int = 2**31 - 1) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{attribute.name} must be a whole number, {low} to {high}, it is {value!r}")

    return check


def _lasting(low: float) -> Callable[[object, attrs.Attribute[Any], float | None], None]:
    def check(instance: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
        if value is None:
            return
        seconds = as_duration(value, attribute.name).total_seconds()
        if seconds < low:
            raise ConfigError(f"{attribute.name} must be at least {low:g} s, it is {value:g} s")
        if seconds > MAX_SECONDS:
            raise ConfigError(f"{attribute.name} must be at most {MAX_SECONDS:g} s, it is {value:g} s")

    return check


def _one_of(*words: str) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value not in words:
            raise ConfigError(f"{attribute.name} must be {' or '.join(words)}, it is {value!r}")

    return check


@frozen(kw_only=True)
class WorkerConfig:
    """The options of one worker. Durations are seconds or timedelta and are kept in seconds.

    Raises `ConfigError` or `InvalidInput` for what cannot be.
    """

    queues: Mapping[str, int] = field(converter=_weights)
    """The queues to serve, 1 to 100, each with its weight, 1 to 1000; of a list each has the weight 1. A claim looks
    into all of them, and each is the first in proportion to its weight, so none starves another."""

    strict: bool = False
    """Look into the queues always in the order given: while the first one has jobs, no other is served."""

    worker_id: str = field(factory=new_worker_id)
    """Who this is, in the history of jobs and among the workers; must differ for each start of a process."""

    slots: int = field(default=8, validator=_whole(1, MAX_SLOTS))
    """How many jobs run at a time, each in a thread of its own."""

    lease: float | None = field(default=None, converter=_seconds_or_none, validator=_lasting(0.0))
    """Seconds without a beat after which a job is given to somebody else; None = as it was enqueued."""

    beat: float | None = field(default=None, converter=_seconds_or_none, validator=_lasting(0.01))
    """Seconds between two beats; None = a third of the shortest lease held, at most 30 s. Must be less than
    half of the lease; for a job whose lease is too short for it, a third of that lease counts."""

    poll_interval: float | None = field(default=None, converter=_seconds_or_none, validator=_lasting(0.01))
    """Seconds between two looks of an idle worker; None = 5 s, or 1 s where no notifications arrive."""

    soft_stop_timeout: float | None = field(default=None, converter=_seconds_or_none, validator=_lasting(0.0))
    """Seconds that a stopping worker waits for its handlers; None = for ever. Set it below the time after
    which the platform kills the process."""

    take_back_every: float = field(default=5.0, converter=_seconds, validator=_lasting(0.01))
    """Seconds between two looks for attempts of any worker whose lease has run out."""

    prune_every: float = field(default=60.0, converter=_seconds, validator=_lasting(0.01))
    """Seconds between two looks for jobs past their retention, and for jobs past their time to live."""

    announce_every: float = field(default=30.0, converter=_seconds, validator=_lasting(0.01))
    """Seconds between two signs of presence, which also fetch requests to stop."""

    transactions: int = field(default=4, validator=_whole(1))
    """The most handlers that can be inside `ctx.transaction()` at a time: the connections kept for that."""

    application: Application | None = None
    """Where child processes find the program: for tasks with `isolation="process"`, and for jobs that may have
    killed a worker. None = there are no child processes: such tasks are refused, and such jobs get a thread."""

    stop_grace: float = field(default=5.0, converter=_seconds, validator=_lasting(0.0))
    """Seconds that a handler has to end after its time limit has passed, its job was cancelled or its lease was
    lost. Then its child process is killed; and a thread past its time limit counts as stuck, and with a heartbeat by
    process is beaten no more."""

    max_stuck: int | None = field(default=None, validator=_whole(0))
    """So many stuck threads are replaced by new ones; with one more the worker stops, with exit code 3. None = as
    many as there are slots."""

    isolated_max_jobs: int = field(default=100, validator=_whole(1))
    """After so many jobs a child process is replaced."""

    heartbeat: Literal["thread", "process"] = field(default="thread", validator=_one_of("thread", "process"))
    """Who sends the beats: a thread of the worker, or a child process, which no handler can keep from it."""

    stall_limit: float = field(default=600.0, converter=_seconds, validator=_lasting(1.0))
    """With a heartbeat by process: when the main thread has given no sign for so many seconds, nothing is beaten."""

    burst: bool = False
    """Run what is due, then end, instead of waiting for more."""

    max_jobs: int | None = field(default=None, validator=_whole(1))
    """End after so many jobs; None = no such limit."""

    max_seconds: float | None = field(default=None, converter=_seconds_or_none, validator=_lasting(0.01))
    """Begin to stop after so many seconds; None = no such limit."""

    wait_for_delayed: float = field(default=0.0, converter=_seconds, validator=_lasting(0.0))
    """In a burst: when nothing is due, wait for what becomes due within so many seconds, such as retries, and run
    it, before it ends."""

    fail_on_error: bool = False
    """End with exit code 4 instead of 0 when jobs have failed in this run and did not recover in it."""

    singleton: str | None = None
    """A name: the worker ends at once, with exit code 0, while another one of this name and schema runs. None = it
    runs in any case."""

    max_jobs_per_child: int | None = field(default=None, validator=_whole(1))
    """Begin to stop once so many jobs have been run, so that the supervisor starts a fresh process; None = never."""

    max_memory_per_child: int | None = field(default=None, validator=_whole(1, 2**63 - 1))
    """Begin to stop once the process takes so many bytes of memory, so that the supervisor starts a fresh one;
    looked at in the cadence of `take_back_every`. None = never."""

    membership: Membership | None = None
    """The place of this process under a supervisor; None without one. Shown among the workers."""

    def __attrs_post_init__(self) -> None:
        self._check_names()
        if self.wait_for_delayed and not self.burst:
            raise ConfigError(
                "wait_for_delayed says how long a burst waits, and this worker is none", hint="set burst, too"
            )
        if (
            self.lease is not None
            and not MIN_LEASE.total_seconds() <= self.lease <= MAX_LEASE.total_seconds()
        ):
            raise ConfigError(f"lease must be {MIN_LEASE} to {MAX_LEASE}, it is {self.lease:g} s")
        lease = DEFAULT_LEASE if self.lease is None else self.lease
        if self.beat is not None and self.beat >= lease / 2:
            raise ConfigError(
                f"a beat of {self.beat:g} s is too slow for a lease of {lease:g} s",
                hint="make it less than half of the lease: one that is late must not cost the job",
            )

    def _check_names(self) -> None:
        check_text(self.worker_id, "worker_id", MAX_WORKER_ID_BYTES)
        if self.singleton is not None:
            check_text(self.singleton, "singleton", MAX_SINGLETON_BYTES)
        if not 1 <= len(self.queues) <= MAX_QUEUES:
            raise ConfigError(f"a worker serves 1 to {MAX_QUEUES} queues, not {len(self.queues)}")
        for queue, weight in self.queues.items():
            check_name(queue, "queue")
            if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= MAX_WEIGHT:
                raise ConfigError(
                    f"the weight of queue {queue!r} must be a whole number, 1 to {MAX_WEIGHT}, it is {weight!r}"
                )
            if self.strict and weight != 1:
                raise ConfigError(
                    f"queue {queue!r} has the weight {weight}, which says nothing in a strict order",
                    hint="leave the weights or strict out",
                )


class WorkerOptions(TypedDict, total=False):
    """What `Worker` takes besides the queues: the fields of `WorkerConfig`."""

    strict: bool
    worker_id: str
    slots: int
    lease: float | timedelta | None
    beat: float | timedelta | None
    poll_interval: float | timedelta | None
    soft_stop_timeout: float | timedelta | None
    take_back_every: float | timedelta
    prune_every: float | timedelta
    announce_every: float | timedelta
    transactions: int
    application: Application | None
    stop_grace: float | timedelta
    max_stuck: int | None
    isolated_max_jobs: int
    heartbeat: Literal["thread", "process"]
    stall_limit: float | timedelta
    burst: bool
    max_jobs: int | None
    max_seconds: float | timedelta | None
    wait_for_delayed: float | timedelta
    fail_on_error: bool
    singleton: str | None
    max_jobs_per_child: int | None
    max_memory_per_child: int | None
    membership: Membership | None
