"""Durations, measured by a clock that goes on while the machine is suspended.

The database has the only clock for instants; here are only spans of time. `time.monotonic` stands still on
Linux while a machine sleeps, so a worker that wakes up would believe in leases that ended hours ago.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from attrs import frozen

from taskq_sync.errors import InvalidInput


def _pick_clock() -> Callable[[], float]:
    # macOS: CLOCK_MONOTONIC counts sleep there, while time.monotonic (mach_absolute_time) does not.
    name = "CLOCK_MONOTONIC" if sys.platform == "darwin" else "CLOCK_BOOTTIME"
    clock_id = getattr(time, name, None)
    if clock_id is None:
        return time.monotonic
    try:
        time.clock_gettime(clock_id)
    except OSError:  # a kernel or a sandbox without it
        return time.monotonic
    return partial(time.clock_gettime, clock_id)  # half the time of a lambda


monotonic: Callable[[], float] = _pick_clock()
"""Seconds since some fixed instant; never goes back, and counts the time the machine was suspended."""


@frozen
class Deadline:
    """An instant of the monotonic clock by which something must have ended, computed once and handed on.

    `at` is in seconds of `monotonic()`; `seconds` is the span it was made from, for messages.
    """

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline *seconds* from now; `math.inf` for none."""
        return cls(monotonic() + seconds, seconds)

    @classmethod
    def never(cls) -> Deadline:
        """Return a deadline that never comes."""
        return _NEVER

    @property
    def expired(self) -> bool:
        """Whether the instant has come."""
        return monotonic() >= self.at

    @property
    def remaining(self) -> float:
        """Seconds left, 0.0 when it has come, `math.inf` when there is none."""
        return max(0.0, self.at - monotonic())

    @property
    def timeout(self) -> float | None:
        """Seconds left in the form that `Event.wait` and its like take: None when there is no deadline."""
        return None if self.at == math.inf else self.remaining


_NEVER = Deadline(math.inf, math.inf)


def as_duration(value: float | timedelta, what: str) -> timedelta:
    """Return *value*, which is in seconds unless it is a timedelta, as a timedelta of whole microseconds.

    *what* names it in messages. Raises `InvalidInput` for a negative, infinite or too large duration and for
    anything that is no duration.
    """
    if isinstance(value, timedelta):
        duration = value
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{what} must be seconds or a timedelta, not {value!r}")
    else:
        try:
            duration = timedelta(seconds=value)
        except (OverflowError, ValueError):
            raise InvalidInput(f"{what} must be a finite number of seconds, not {value!r}") from None
    if duration < timedelta(0):
        raise InvalidInput(f"{what} must not be negative, it is {value!r}")
    return duration


def interval_text(duration: timedelta) -> str:
    """Return *duration* as PostgreSQL reads it under every IntervalStyle, exact to the microsecond."""
    microseconds = duration // timedelta(microseconds=1)
    return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d} seconds"
