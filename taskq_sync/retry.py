"""Calls that are repeated until a deadline. The only module that uses tenacity."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception

from taskq_sync.backoff import pause
from taskq_sync.clock import Deadline

_T = TypeVar("_T")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


def repeat_until(
    deadline: Deadline,
    call: Callable[[], _T],
    *,
    when: Callable[[BaseException], bool],
    at_the_end: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Return what *call* returns, repeating it while it raises an error of which *when* says that it passes.

    Raises the last error once the next pause would end after the *deadline*; pauses grow from 0.05 s to 1 s. With
    *at_the_end* the last pause ends at the deadline, and one more call follows.
    """

    def too_late(state: RetryCallState) -> bool:
        return deadline.expired if at_the_end else state.upcoming_sleep >= deadline.remaining

    def wait(state: RetryCallState) -> float:
        seconds = pause(state.attempt_number, base=FIRST_PAUSE, cap=LONGEST_PAUSE)
        return min(seconds, deadline.remaining) if at_the_end else seconds

    try:
        return call()  # mostly this is all, and the state that is kept for more would take as long again
    except Exception as error:
        failures = [error]

    def again() -> _T:
        if failures:
            raise failures.pop()
        return call()

    attempts = Retrying(retry=retry_if_exception(when), stop=too_late, wait=wait, sleep=sleep, reraise=True)
    return attempts(again)
