"""`taskq-sync housekeep`."""

from __future__ import annotations

import click

from taskq_sync.cli.output import as_json, print_json
from taskq_sync.cli.target import Target, takes_target
from taskq_sync.model import Housekept


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=1000,
    show_default=True,
    help="How many rows of each kind one transaction handles.",
)
@as_json
@takes_target
def housekeep(target: Target, limit: int, as_json: bool) -> None:
    """Do what workers do in the background.

    Takes back attempts whose lease ran out, ends jobs whose time is over, deletes jobs that have been kept
    long enough, and raises those that have waited too long. Goes on, one short transaction after the other,
    until nothing is left to do. Workers do this by themselves; the command is for cron, where no worker runs
    all the time.
    """
    total = Housekept(taken_back=0, expired=0, pruned=0, raised=0)
    with target.connect() as db:
        while True:
            done = db.jobs.housekeep(db.session, limit)
            total = Housekept(
                taken_back=total.taken_back + done.taken_back,
                expired=total.expired + done.expired,
                pruned=total.pruned + done.pruned,
                raised=total.raised + done.raised,
            )
            if max(done.taken_back, done.expired, done.pruned, done.raised) < limit:
                break
    if as_json:
        print_json(total)
    else:
        click.echo(
            f"{total.taken_back} taken back, {total.expired} expired, {total.pruned} pruned, {total.raised} raised"
        )
