"""How a job is to be run: the options shared by the task, the call and the SQL function.

One class serves all three. `@tq.task(...)` makes the options of a task, `.using(...)` those of a call,
which go over the task's; what both leave open is null in SQL, which means the default of the queue.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal, TypedDict

import attrs
from attrs import field, frozen

from taskq_sync.clock import as_duration
from taskq_sync.errors import InvalidInput
from taskq_sync.text import find_unstorable

_CONTROL = re.compile(r"[\x01-\x1f\x7f]")
MAX_NAME_BYTES = 120
MAX_KEY_BYTES = 255
MAX_DELAY = timedelta(days=366)
NOTHING = timedelta(0)
SHORTEST = timedelta(microseconds=1)
MIN_LEASE = timedelta(seconds=0.1)
MAX_LEASE = timedelta(days=1)
MAX_ATTEMPTS = 100_000
UNIQUE_MODES = ("keep", "replace", "replace_keep_schedule")
UNIQUE_SCOPES = ("live", "waiting")


def check_text(value: object, what: str, max_bytes: int) -> None:
    """Raise `InvalidInput` unless *value* is a text of 1 to *max_bytes* bytes that PostgreSQL can hold."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be a str, not {value!r}")
    bad = find_unstorable(value)
    if bad is not None:
        raise InvalidInput(f"{what} {value!r} holds {bad}, which PostgreSQL cannot store")
    size = len(value.encode())
    if not 1 <= size <= max_bytes:
        raise InvalidInput(f"{what} must have 1 to {max_bytes} bytes, it has {size}")


def check_name(value: object, what: str) -> None:
    """Raise `InvalidInput` unless *value* may be the name of a queue or a task."""
    check_text(value, what, MAX_NAME_BYTES)
    if _CONTROL.search(str(value)):
        raise InvalidInput(f"{what} {value!r} holds a control character")


def _duration(value: float | timedelta | None) -> timedelta | None:
    """Return seconds as a timedelta. A value that is none is left to the validator, which knows its name."""
    try:
        return None if value is None else as_duration(value, "")
    except InvalidInput:
        return value  # type: ignore[return-value]


def _check_key(instance: object, attribute: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None:
        check_text(value, attribute.name, MAX_KEY_BYTES)


def _between(
    low: timedelta, high: timedelta
) -> Callable[[object, attrs.Attribute[timedelta | None], timedelta | None], None]:
    def check(
        instance: object, attribute: attrs.Attribute[timedelta | None], value: timedelta | None
    ) -> None:
        if value is not None and not low <= as_duration(value, attribute.name) <= high:
            raise InvalidInput(f"{attribute.name} must be {low} to {high}, it is {value}")

    return check


def _whole(low: int, high: int) -> Callable[[object, attrs.Attribute[int | None], int | None], None]:
    def check(instance: object, attribute: attrs.Attribute[int | None], value: object) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(f"{attribute.name} must be an int, not {value!r}")
        if not low <= value <= high:
            raise InvalidInput(f"{attribute.name} must be {low} to {high}, it is {value}")

    return check


def _one_of(*known: str) -> Callable[[object, attrs.Attribute[str | None], object], None]:
    def check(instance: object, attribute: attrs.Attribute[str | None], value: object) -> None:
        if value is not None and value not in known:
            raise InvalidInput(
                f"{attribute.name} must be {', '.join(known[:-1])} or {known[-1]}, not {value!r}"
            )

    return check


def _aware(instance: object, attribute: attrs.Attribute[datetime | None], value: object) -> None:
    if value is None:
        return
    if not isinstance(value, datetime):
        raise InvalidInput(f"{attribute.name} must be a datetime, not {value!r}")
    if value.utcoffset() is None:
        raise InvalidInput(
            f"{attribute.name} {value.isoformat()} has no time zone",
            hint="use an aware datetime, for example datetime.now(timezone.utc)",
        )
    if value.year < 1970:
        raise InvalidInput(f"{attribute.name} {value.isoformat()} is earlier than 1970")


def _mapping(
    instance: object, attribute: attrs.Attribute[Mapping[str, object] | None], value: object
) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{attribute.name} must be a mapping, not {value!r}")


def _flag(instance: object, attribute: attrs.Attribute[bool | None], value: object) -> None:
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{attribute.name} must be a bool, not {value!r}")


@frozen(kw_only=True)
class JobOptions:
    """The options of a job. None everywhere means: as the task says, else as the queue says.

    Durations are seconds or timedelta and are kept as timedelta. Raises `InvalidInput` in the constructor.
    """

    priority: int | None = field(default=None, validator=_whole(-32768, 32767))
    """-32768 to 32767; higher runs first. Default 0."""

    scheduled_at: datetime | None = field(default=None, validator=_aware)
    """Not before this instant; must be aware. Not together with `delay`."""

    delay: timedelta | None = field(default=None, converter=_duration, validator=_between(NOTHING, MAX_DELAY))
    """Not before this long after the statement that enqueues, by the clock of the database."""

    unique_key: str | None = field(default=None, validator=_check_key)
    """At most one live job of the queue has this key; another enqueue meets that job, see `unique_mode`."""

    concurrency_key: str | None = field(default=None, validator=_check_key)
    """At most N jobs with this key run at a time, in all queues together (1 unless a limit was set)."""

    max_attempts: int | None = field(default=None, validator=_whole(1, MAX_ATTEMPTS))
    """Failures after which the job ends as failed. Default 5."""

    backoff: timedelta | None = field(
        default=None, converter=_duration, validator=_between(NOTHING, MAX_DELAY)
    )
    """The pause after the first failure; doubles with each further one. 0 means at once. Default 30 s."""

    backoff_max: timedelta | None = field(
        default=None, converter=_duration, validator=_between(NOTHING, MAX_DELAY)
    )
    """The longest such pause. Default 1 h."""

    lease: timedelta | None = field(
        default=None, converter=_duration, validator=_between(MIN_LEASE, MAX_LEASE)
    )
    """How long an attempt may go without a beat before the job is given to another worker. Default 60 s."""

    ttl: timedelta | None = field(default=None, converter=_duration, validator=_between(SHORTEST, MAX_DELAY))
    """A job that has not run this long after its `scheduled_at` ends with the outcome `expired_ttl`."""

    headers: Mapping[str, object] | None = field(default=None, validator=_mapping)
    """A JSON object that travels with the job, for tracing and the like (8 KiB)."""

    unique_mode: str | None = field(default=None, validator=_one_of(*UNIQUE_MODES))
    """What an enqueue does to a job that holds its key and has not been started: `keep` leaves it as it is,
    `replace` gives it this request, `replace_keep_schedule` all of this request but its time. Default `keep`."""

    unique_scope: str | None = field(default=None, validator=_one_of(*UNIQUE_SCOPES))
    """How long a job holds its key: `live`, until it has ended, or `waiting`, until it is started. Default
    `live`."""

    unique_for: timedelta | None = field(
        default=None, converter=_duration, validator=_between(SHORTEST, MAX_DELAY)
    )
    """A job holds its key at least this long after it was enqueued, whatever becomes of it."""

    ordered: bool | None = field(default=None, validator=_flag)
    """Started when no older ordered job of its `concurrency_key` is live; older is whose producer has committed
    before. One that is to be tried again blocks the others. Needs a `concurrency_key`."""

    def __attrs_post_init__(self) -> None:
        if self.delay is not None and self.scheduled_at is not None:
            raise InvalidInput("give either delay or scheduled_at, not both")

    @cached_property
    def given(self) -> Mapping[str, Any]:
        """The options that are set, by name."""
        values = ((each.name, getattr(self, each.name)) for each in attrs.fields(JobOptions))
        return {name: value for name, value in values if value is not None}

    @cached_property
    def repeatable_for(self) -> float:
        """For how many seconds after it was sent an enqueue may be sent again, and makes no second job by that.

        0 without a unique key. One of scope `live` holds the two together while the job is live, which is taken
        for ever; one of scope `waiting` only as long as `unique_for` says, since a worker may start the job at once.
        """
        if self.unique_key is None:
            return 0.0
        if self.unique_scope == "waiting":
            return 0.0 if self.unique_for is None else self.unique_for.total_seconds()
        return math.inf

    def merged_over(self, other: JobOptions) -> JobOptions:
        """Return these options where they are set, and those of *other* where they are not.

        `delay` and `scheduled_at` count as one: whichever is set here replaces both of *other*.
        """
        changes = dict(self.given)
        if "delay" in changes or "scheduled_at" in changes:
            changes = {"delay": None, "scheduled_at": None, **changes}
        return attrs.evolve(other, **changes) if changes else other


class OptionValues(TypedDict, total=False):
    """The options as keyword arguments, for signatures; the fields of `JobOptions` say what they mean."""

    priority: int | None
    scheduled_at: datetime | None
    delay: float | timedelta | None
    unique_key: str | None
    concurrency_key: str | None
    max_attempts: int | None
    backoff: float | timedelta | None
    backoff_max: float | timedelta | None
    lease: float | timedelta | None
    ttl: float | timedelta | None
    headers: Mapping[str, object] | None
    unique_mode: Literal["keep", "replace", "replace_keep_schedule"] | None
    unique_scope: Literal["live", "waiting"] | None
    unique_for: float | timedelta | None
    ordered: bool | None
