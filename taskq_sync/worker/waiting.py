"""The jobs that were claimed ahead and wait for a slot, and for how long they may."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from taskq_sync.worker.attempts import LiveAttempt, Stage

#: A job that no slot has started so many seconds after its claim goes back, for another worker to start.
PATIENCE = 1.0


class Waiting:
    """Batches in the order of their claims. Belongs to the claimer's thread.

    The slots take attempts without telling: what is found here may have been started, or even ended, a while
    ago. `LiveAttempt.take` decides who has it. What was started is forgotten with the next claim: kept for all of
    `PATIENCE`, the jobs of a second were in memory and before the garbage collector, 2 us of the claimer for each.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[float, Sequence[LiveAttempt]]] = deque()

    @property
    def late_at(self) -> float:
        """The monotonic instant at which the oldest batch has waited too long; `math.inf` when there is none."""
        return self._batches[0][0] if self._batches else math.inf

    def add(self, attempts: Sequence[LiveAttempt], now: float) -> None:
        """These were handed to the slots *now*, in this order."""
        self._forget_started()
        if attempts:
            self._batches.append((now + PATIENCE, attempts))

    def take_late(self, now: float) -> list[LiveAttempt]:
        """Take and return what has waited too long, so that no slot can start it any more."""
        late: list[LiveAttempt] = []
        while self._batches and self.late_at <= now:
            late += self._take_batch()
        return late

    def take_all(self) -> list[LiveAttempt]:
        """Take and return everything that still waits."""
        return self.take_late(math.inf)

    def _forget_started(self) -> None:
        # The slots take from one queue: when the last of a batch is started, all before it are, or a slot holds them.
        while self._batches and self._batches[0][1][-1].stage is not Stage.WAITING:
            self._batches.popleft()

    def _take_batch(self) -> list[LiveAttempt]:
        _, attempts = self._batches.popleft()
        return [attempt for attempt in attempts if attempt.take(Stage.ENDED)]
