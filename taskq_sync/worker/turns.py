"""In which order a claim looks into the queues."""

from __future__ import annotations

from collections.abc import Mapping


class Turns:
    """The order of the queues from claim to claim. Not locked: it belongs to the claimer.

    In the fair mode each queue is first in proportion to its weight, as evenly spread as can be: with 4 and 1 the
    first ones are high, high, low, high, high. The others follow by what they are owed, so a queue that is empty
    costs nothing and no queue starves. The *strict* mode always keeps the order given: while the first queue has
    jobs, no other is served.

    Source: the smooth weighted round robin of nginx.
    """

    def __init__(self, weights: Mapping[str, int], *, strict: bool = False) -> None:
        """Take the queues in their order, each with its weight, a positive int."""
        self._weights = weights
        self._strict = strict
        self._total = sum(weights.values())
        self._owed = dict.fromkeys(weights, 0)

    def next(self) -> list[str]:
        """Return all queues in the order for the next claim."""
        if self._strict:
            return list(self._weights)
        for queue, weight in self._weights.items():
            self._owed[queue] += weight
        order = sorted(self._owed, key=self._owed.__getitem__, reverse=True)
        self._owed[order[0]] -= self._total
        return order
