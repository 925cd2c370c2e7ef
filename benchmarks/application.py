"""The program that `taskq-sync worker --app benchmarks.application:tq` serves: one task, which does nothing."""

from __future__ import annotations

from benchmarks import product
from taskq_sync import TaskQ

tq = TaskQ()


@tq.task(queue=product.QUEUE, name=product.TASK)
def noop(number: int, text: str) -> None:
    """What every benchmark runs."""
