"""`taskq-sync workers`: look at workers, and ask them to stop."""

from __future__ import annotations

from collections.abc import Sequence

import click

from taskq_sync.cli.output import as_json, print_json, print_table, shown
from taskq_sync.cli.parameters import takes_actor, takes_reason
from taskq_sync.cli.target import Target, takes_target
from taskq_sync.model import WorkerSeen


@click.group()
def workers() -> None:
    """Look at workers, and ask them to stop."""


@workers.command("list")
@as_json
@takes_target
def list_workers(target: Target, as_json: bool) -> None:
    """List the workers that are there.

    One that was not heard of for a while is silent; it is forgotten after a day.
    """
    with target.connect() as db:
        found = db.workers.list(db.session)
    if as_json:
        print_json(found)
    else:
        print_workers(found)


@workers.command()
@click.argument("worker_id", metavar="ID")
@takes_reason
@takes_actor
@as_json
@takes_target
def stop(target: Target, worker_id: str, reason: str | None, actor: str, as_json: bool) -> None:
    """Ask the worker ID to stop softly: it takes no more jobs and waits for those that it runs.

    A worker that listens for notifications hears it at once, any other within 30 seconds. Does not wait for
    its end.
    """
    with target.connect() as db:
        done = db.workers.stop(db.session, worker_id, actor=actor, reason=reason)
    if as_json:
        print_json(done)
    else:
        already = " already" if done.result == "already_requested" else ""
        click.echo(f"worker {shown(done.worker_id)} was{already} asked to stop")


def print_workers(found: Sequence[WorkerSeen]) -> None:
    """Print the table of workers."""
    print_table(
        ("worker", "state", "#running", "#slots", "queues", "host", "#pid", "version", "started", "seen"),
        (
            (
                each.worker_id,
                f"{each.state}, to stop" if each.stop_requested and each.state != "stopping" else each.state,
                each.running,
                each.slots,
                ", ".join(each.queues),
                each.host,
                each.pid,
                each.version,
                each.started_at,
                each.seen_at,
            )
            for each in found
        ),
        empty="no workers",
    )
