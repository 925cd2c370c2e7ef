"""What a handler may return, or raise, to say how its attempt ends::

    return Complete({"rows": 7})          # the same as: return {"rows": 7}
    return Snooze(3600, reason="quota")   # later, without cost to the budget
    raise Retry(after=30)                 # later, as a failure
    raise NonRetryable("no such user")    # failed for good
    raise Cancel("the user left")

All are values: frozen, equal when their fields are equal, and picklable. They are exceptions only so that
code deep inside a handler can end the attempt.
"""

from __future__ import annotations

from datetime import timedelta

import attrs
from attrs import field, frozen

from taskq_sync.clock import as_duration
from taskq_sync.errors import InvalidInput

MIN_SNOOZE = timedelta(seconds=0.1)


class Outcome(Exception):
    """The base of the five ways to end an attempt."""

    def __str__(self) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _values(other) == _values(self)

    # Equal outcomes must hash alike, and the fields may hold lists and dicts.
    def __hash__(self) -> int:
        return hash(type(self))

    # An exception pickles by its positional arguments and would lose the others.
    def __reduce__(self) -> tuple[object, ...]:
        return type(self), _values(self)


def _values(outcome: Outcome) -> tuple[object, ...]:
    return attrs.astuple(outcome, recurse=False)  # type: ignore[arg-type]  # every subclass is an attrs class


def _delay(value: float | timedelta) -> timedelta:
    return as_duration(value, "delay")


def _after(value: float | timedelta | None) -> timedelta | None:
    return None if value is None else as_duration(value, "after")


@frozen(auto_exc=False, eq=False)
class Complete(Outcome):
    """The job is done: it ends as succeeded.

    `result` is any JSON value, and whatever `cattrs` can turn into one (8 KiB). `followups` are refused until
    they exist.
    """

    result: object = None
    followups: tuple[object, ...] = field(default=(), converter=tuple)


@frozen(auto_exc=False, eq=False)
class Snooze(Outcome):
    """Run the job again after `delay` (seconds or timedelta, at least 0.1 s), without cost to its budget.

    `progress` replaces the checkpoint; None leaves it as it is. `reason` is kept in the history.
    """

    delay: timedelta = field(converter=_delay)
    progress: object = None
    reason: str | None = None

    @delay.validator
    def _check_delay(self, attribute: object, value: timedelta) -> None:
        if value < MIN_SNOOZE:
            raise InvalidInput(f"a snooze lasts at least 0.1 s, not {value.total_seconds()} s")


@frozen(auto_exc=False, eq=False)
class Cancel(Outcome):
    """End the job as cancelled; it is not run again. `reason` is kept in the history."""

    reason: str | None = None


@frozen(auto_exc=False, eq=False)
class Retry(Outcome):
    """The attempt failed: run the job again, or end it as failed when its budget is used up.

    `after` (seconds or timedelta) replaces the job's own backoff once. `error` is the text kept in the
    history.
    """

    after: timedelta | None = field(default=None, converter=_after)
    error: str | None = None
    progress: object = None


@frozen(auto_exc=False, eq=False)
class NonRetryable(Outcome):
    """The job cannot succeed, however often it is run: it ends as failed, with `error` as the reason."""

    error: str
    progress: object = None
