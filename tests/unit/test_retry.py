"""Calls that are repeated until a deadline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskq_sync import clock
from taskq_sync.clock import Deadline
from taskq_sync.retry import repeat_until


class Time:
    """A clock that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(clock, "monotonic", lambda: made.now)
    return made


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [error] * times

    def call() -> str:
        if left:
            raise left.pop()
        return "done"

    return call


def is_os_error(error: BaseException) -> bool:
    return isinstance(error, OSError)


def test_returns_the_first_success(time: Time) -> None:
    call = failing(3, OSError())

    assert repeat_until(Deadline.after(5), call, when=is_os_error, sleep=time.sleep) == "done"
    assert len(time.pauses) == 3
    assert time.pauses[0] < time.pauses[1] < time.pauses[2]


def test_raises_an_error_that_does_not_pass_at_once(time: Time) -> None:
    with pytest.raises(KeyError):
        repeat_until(Deadline.after(5), failing(1, KeyError()), when=is_os_error, sleep=time.sleep)
    assert time.pauses == []


def test_raises_the_last_error_before_the_deadline(time: Time) -> None:
    error = OSError("still down")

    with pytest.raises(OSError, match="still down") as caught:
        repeat_until(Deadline.after(5), failing(1000, error), when=is_os_error, sleep=time.sleep)

    assert caught.value is error
    assert 3.5 < time.now < 5
    assert max(time.pauses) <= 1.15


def test_at_the_end_calls_once_more_when_the_deadline_comes(time: Time) -> None:
    calls = []

    def call() -> None:
        calls.append(time.now)
        raise OSError("still down")

    with pytest.raises(OSError, match="still down"):
        repeat_until(Deadline.after(5), call, when=is_os_error, at_the_end=True, sleep=time.sleep)

    assert calls[-1] == pytest.approx(5)


def test_at_the_end_calls_just_once_when_there_is_no_time(time: Time) -> None:
    with pytest.raises(OSError, match="still down"):
        repeat_until(
            Deadline.after(0),
            failing(1, OSError("still down")),
            when=is_os_error,
            at_the_end=True,
            sleep=time.sleep,
        )
    assert time.pauses == []


def test_does_not_swallow_an_interruption(time: Time) -> None:
    def call() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeat_until(Deadline.after(5), call, when=is_os_error, sleep=time.sleep)
