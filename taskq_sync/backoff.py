"""Pauses that grow: base * 2^(failures - 1), capped, with a jitter of 15 percent.

The same formula as the retries of jobs, which SQL computes; here it paces reconnecting, polling and the
release of unknown tasks.
"""

from __future__ import annotations

import random
from collections.abc import Callable

JITTER = 0.15
# Beyond this exponent every base worth having exceeds every cap worth having, and 2.0 ** n would overflow.
_MAX_DOUBLINGS = 62


def pause(
    failures: int,
    *,
    base: float,
    cap: float,
    jitter: float = JITTER,
    uniform: Callable[[float, float], float] = random.uniform,
) -> float:
    """Return the seconds to wait after *failures* failures in a row (0 or fewer: no wait).

    Never above *cap* plus its jitter, never negative, for any count of failures. A *base* of 0 means at once.
    """
    if failures < 1 or base <= 0:
        return 0.0
    doublings = min(failures - 1, _MAX_DOUBLINGS)
    return min(base * 2.0**doublings, cap) * uniform(1 - jitter, 1 + jitter)


class Backoff:
    """The pauses of one loop: `next()` after each failure, `reset()` after a success.

    Not locked: it belongs to the thread that runs the loop.
    """

    def __init__(self, *, base: float, cap: float) -> None:
        """Start without failures; *base* and *cap* in seconds."""
        self._base = base
        self._cap = cap
        self.failures = 0

    def next(self) -> float:
        """Count a failure and return the seconds to wait before the next attempt."""
        self.failures += 1
        return pause(self.failures, base=self._base, cap=self._cap)

    def reset(self) -> None:
        """Forget the failures."""
        self.failures = 0
