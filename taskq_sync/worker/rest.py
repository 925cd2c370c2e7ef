"""When an idle claimer looks again: at the next due job, at a notification, or after the poll interval.

Polling is correctness: a notification only makes a look come earlier. A producer sends none when it sees
nobody asleep, and it may have looked just before this worker's registration could be seen. Therefore whoever
lies down looks once more at 0, 0.1 and 1 s, in which time such a producer has committed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

#: Seconds between two looks of an idle worker that hears notifications, and of one that does not.
POLL_INTERVAL = 5.0
POLL_INTERVAL_DEAF = 1.0

#: Seconds after the registration at which an idle worker looks again.
LOOKS_AFTER_LYING_DOWN = (0.0, 0.1, 1.0)

#: How long a registration lasts, in seconds, and how long before its end it is renewed. Much longer than the
#: poll interval, so that an idle worker costs the database one statement per look and not two.
REGISTRATION = 60.0
RENEWAL = 10.0

#: When a claim has brought some jobs to a worker that is registered as asleep, it looks whether there are more only so
#: many seconds later. Meanwhile the slots begin with what came, for which they need the interpreter and a processor;
#: and for what is enqueued meanwhile there will be a notification.
HEAD_START = 0.003

#: When a queue is ready and yet a claim brought nothing (the rows were locked, or put on hold), the pause
#: before the next claim: at random in this range, and after a few more never below a floor that doubles.
READY_PAUSE = (0.005, 0.02)
READY_PATIENCE = 3
READY_FLOOR = 0.05


class Rest:
    """The pauses of one claimer. Belongs to its thread; knows no clock and sends nothing.

    `until` is the monotonic instant before which nothing needs to be looked at.
    """

    def __init__(
        self, poll_interval: float | None = None, *, uniform: Callable[[float, float], float] = random.uniform
    ) -> None:
        """*poll_interval* in seconds; None = `POLL_INTERVAL`, or `POLL_INTERVAL_DEAF` without notifications."""
        self._poll_interval = poll_interval
        self.listening = False
        self.until = 0.0
        self._uniform = uniform
        self._in_vain = 0
        self._lay_down_at: float | None = None
        self._looks: list[float] = []

    @property
    def poll_interval(self) -> float:
        """Seconds between two looks when nothing else says when to look."""
        if self._poll_interval is not None:
            return self._poll_interval
        return POLL_INTERVAL if self.listening else POLL_INTERVAL_DEAF

    @property
    def lying(self) -> bool:
        """Whether the worker is registered as asleep."""
        return self._lay_down_at is not None

    def over(self) -> None:
        """There is work: look again as soon as a slot is free."""
        self.until = 0.0
        self._in_vain = 0

    def found_some(self, now: float) -> None:
        """A claim brought less than was asked for: look for more when the slots have begun."""
        self.until = now + HEAD_START
        self._in_vain = 0

    def failed(self, now: float, seconds: float) -> None:
        """A call failed: look again after *seconds*."""
        self.until = now + seconds
        self._lay_down_at = None

    def passed_over(self, now: float) -> None:
        """Something is ready that the last claim did not bring."""
        self._in_vain += 1
        pause = self._uniform(*READY_PAUSE)
        if self._in_vain > READY_PATIENCE:
            floor = READY_FLOOR * 2.0 ** min(self._in_vain - READY_PATIENCE - 1, 16)
            pause = max(pause, min(floor, self.poll_interval))
        self.until = now + pause

    def must_register(self, now: float) -> bool:
        """Return whether a registration as asleep is of use, and is missing or about to run out."""
        return self.listening and (
            self._lay_down_at is None or now >= self._lay_down_at + REGISTRATION - RENEWAL
        )

    def lay_down(self, now: float) -> None:
        """The worker was registered as asleep for `REGISTRATION`."""
        if self._lay_down_at is None:
            self._looks = [now + seconds for seconds in LOOKS_AFTER_LYING_DOWN]
        self._lay_down_at = now

    def got_up(self) -> None:
        """The worker is no longer registered."""
        self._lay_down_at = None
        self._looks = []

    def nothing_due(self, now: float, due_in: float | None) -> None:
        """Nothing is ready; the next job is due in so many seconds, None = there is none."""
        self._in_vain = 0
        look = self._looks.pop(0) if self._looks else now + self.poll_interval
        self.until = look if due_in is None else min(look, now + max(due_in, 0.0))
