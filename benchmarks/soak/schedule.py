"""When what is broken: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from attrs import frozen

#: A kill comes at its time, give or take this part of the time between two.
_KILL_JITTER = 0.05

#: A restart comes somewhere in this part of each interval: before, after and at the same time as a kill.
_RESTART_WITHIN = (0.2, 0.8)


@frozen(order=True)
class Kill:
    """`kill -9` of the worker with this index, *at* seconds after the start."""

    at: float
    worker: int


@frozen(order=True)
class Restart:
    """The server stops and starts again, *at* seconds after the start: in good order, or as after a crash."""

    at: float
    immediate: bool


def kills(seed: int, *, seconds: float, every: float, victims: range) -> Iterator[Kill]:
    """One every *every* seconds; the *victims* in turn."""
    chance = random.Random(f"kills {seed}")
    for number in range(int(seconds / every)):
        at = every * (number + 0.5 + chance.uniform(-_KILL_JITTER, _KILL_JITTER))
        yield Kill(at, victims[number % len(victims)])


def restarts(seed: int, *, seconds: float, every: float) -> Iterator[Restart]:
    """One in every *every* seconds; the first in good order, the second as a crash, and so on."""
    chance = random.Random(f"restarts {seed}")
    for number in range(int(seconds / every)):
        yield Restart(every * (number + chance.uniform(*_RESTART_WITHIN)), immediate=number % 2 == 1)
