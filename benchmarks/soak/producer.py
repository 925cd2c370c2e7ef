"""Enqueues at a steady rate, and knows what it has got an answer for.

After an outage the jobs of that time are made up for, many in one call.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

from attrs import define, field

from benchmarks.soak.mix import Order
from taskq_sync import DatabaseUnavailable, EnqueueResult, OutcomeUnknown, TaskQ

#: So many due jobs at most are enqueued one by one; more go in one call.
_FEW = 10
_MANY = 100


@define
class Producer:
    """*tally* of what became of the calls: `made` has the ids of the jobs that an answer has named as new."""

    tq: TaskQ
    orders: Iterator[Order]
    rate: float
    made: list[int] = field(init=False, factory=list)
    existed: int = field(init=False, default=0)
    #: The numbers of those whose call ended without telling whether it was done. They are not tried again.
    unknown: list[int] = field(init=False, factory=list)
    _stopped: threading.Event = field(init=False, factory=threading.Event)

    def run(self) -> None:
        """Enqueue until `stop`; an order is taken from the list when it is due."""
        began, taken = time.monotonic(), 0
        waiting: list[Order] = []  # due, and not in
        while not self._stopped.is_set():
            due = int((time.monotonic() - began) * self.rate) + 1
            if not waiting and taken < due:
                waiting = list(itertools.islice(self.orders, min(due - taken, _MANY)))
                taken += len(waiting)
            if waiting:
                waiting = self._send(waiting)
            else:
                self._stopped.wait(began + taken / self.rate - time.monotonic())

    def stop(self) -> None:
        """Let `run` return after the call that it is in."""
        self._stopped.set()

    def _send(self, waiting: list[Order]) -> list[Order]:
        """Make the one call that is next, and return what waits for another one."""
        now, rest = (waiting, []) if len(waiting) > _FEW else (waiting[:1], waiting[1:])
        try:
            if len(now) > 1:
                answers = self.tq.enqueue_many([order.request for order in now])
            else:
                answers = [self.tq.send(now[0].request)]
        except OutcomeUnknown:
            self.unknown += [order.number for order in now]
        except DatabaseUnavailable:  # nothing was done
            return waiting
        else:
            self._note(answers)
        return rest

    def _note(self, answers: list[EnqueueResult]) -> None:
        for answer in answers:
            if answer.created:
                self.made.append(answer.job_id)
            else:
                self.existed += 1
