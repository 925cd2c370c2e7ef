"""Another program, which does not know the tasks of `faults.tasks` but the one that every worker is asked for."""

from __future__ import annotations

from faults.ledger import recorded
from taskq_sync import JobContext, TaskQ

tq = TaskQ()


@tq.task(queue="qa", name="nap")
def nap(ctx: JobContext) -> None:
    """Do nothing."""
    with recorded(ctx):
        pass
