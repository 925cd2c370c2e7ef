"""Durations and deadlines."""

from __future__ import annotations

import math
import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_sync import clock
from taskq_sync.clock import Deadline, as_duration, interval_text, monotonic
from taskq_sync.errors import InvalidInput


def test_the_clock_goes_forward() -> None:
    assert monotonic() <= monotonic()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="no clock of this name here")
def test_the_clock_counts_the_time_of_suspension() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)

    assert before <= monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_machine_without_the_clock_uses_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(clock_id: int) -> float:
        raise OSError

    monkeypatch.setattr(time, "clock_gettime", refuse)

    assert clock._pick_clock() is time.monotonic


def test_a_deadline_counts_down_and_stops_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    deadline = Deadline.after(5)

    now = 102.0
    assert (deadline.remaining, deadline.timeout, deadline.expired) == (3.0, 3.0, False)
    now = 105.0
    assert (deadline.remaining, deadline.expired) == (0.0, True)


def test_no_deadline_never_comes() -> None:
    deadline = Deadline.never()

    assert deadline.remaining == math.inf
    assert deadline.timeout is None
    assert not deadline.expired
    assert Deadline.after(math.inf).timeout is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(90, timedelta(seconds=90)), (0.1, timedelta(milliseconds=100)), (timedelta(1), timedelta(1))],
)
def test_takes_seconds_or_a_timedelta(value: float | timedelta, expected: timedelta) -> None:
    assert as_duration(value, "delay") == expected


@pytest.mark.parametrize("value", [-1, timedelta(-1), math.nan, math.inf, 1e300, "5", True, None])
def test_refuses_what_is_no_duration_by_its_name(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^backoff must"):
        as_duration(value, "backoff")  # type: ignore[arg-type]


@given(st.timedeltas(min_value=timedelta(0)))
def test_writes_an_interval_exactly(duration: timedelta) -> None:
    number, unit = interval_text(duration).split()
    whole, micro = number.split(".")

    assert unit == "seconds"
    assert timedelta(seconds=int(whole), microseconds=int(micro)) == duration
