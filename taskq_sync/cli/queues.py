"""`taskq-sync queues`: look at queues, pause, resume and empty them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from taskq_sync.cli.output import as_json, at_most, print_json, print_table, shown
from taskq_sync.cli.parameters import takes_actor, takes_reason
from taskq_sync.cli.target import Target, takes_target
from taskq_sync.model import PauseResult, QueueStats


@click.group()
def queues() -> None:
    """Look at queues, pause, resume and empty them."""


@queues.command("list")
@click.argument("queue", required=False)
@as_json
@takes_target
def list_queues(target: Target, queue: str | None, as_json: bool) -> None:
    """List the queues that hold jobs or have settings, or just QUEUE."""
    with target.connect() as db:
        found = db.queues.stats(db.session, queue)
    if as_json:
        print_json(found)
    else:
        print_queues(found)


@queues.command()
@click.argument("queue")
@takes_reason
@takes_actor
@as_json
@takes_target
def pause(target: Target, queue: str, reason: str | None, actor: str, as_json: bool) -> None:
    """Let no job of QUEUE be started; those that run go on."""
    with target.connect() as db:
        _print(db.queues.pause(db.session, queue, actor=actor, reason=reason), as_json)


@queues.command()
@click.argument("queue")
@takes_reason
@takes_actor
@as_json
@takes_target
def resume(target: Target, queue: str, reason: str | None, actor: str, as_json: bool) -> None:
    """Let jobs of QUEUE be started again."""
    with target.connect() as db:
        _print(db.queues.resume(db.session, queue, actor=actor, reason=reason), as_json)


@queues.command()
@click.argument("queue")
@click.option("--limit", type=click.IntRange(1), help="How many at most. Default: all.")
@click.option("--reason", help="Why; kept with the jobs and in the audit.")
@takes_actor
@as_json
@takes_target
def purge(
    target: Target, queue: str, limit: int | None, reason: str | None, actor: str, as_json: bool
) -> None:
    """Cancel the jobs that wait in QUEUE, due or not; those that run go on.

    Goes in steps of a thousand jobs, so that it may be interrupted and run again.
    """
    cancelled = 0
    with target.connect() as db:
        while limit is None or cancelled < limit:
            step = 1000 if limit is None else min(1000, limit - cancelled)
            rows = db.queues.purge(db.session, queue, limit=step, actor=actor, reason=reason)
            cancelled += len(rows)
            if not rows:
                break
    if as_json:
        print_json({"queue": queue, "cancelled": cancelled})
    else:
        click.echo(f"queue {shown(queue)}: {cancelled} jobs cancelled")


def print_queues(found: Sequence[QueueStats]) -> None:
    """Print the table of queues."""
    print_table(
        ("queue", "paused", "#ready", "#delayed", "#held", "#running", "#failed", "oldest ready", "next due"),
        (
            (
                each.queue,
                each.paused,
                *map(at_most, (each.ready, each.delayed, each.held, each.running, each.failed)),
                each.oldest_ready_age,
                each.next_due_at,
            )
            for each in found
        ),
        empty="no queues",
    )


def _print(done: PauseResult, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        click.echo(f"queue {shown(done.queue)} {done.result.replace('_', ' ')}")
