"""`taskq-sync status`."""

from __future__ import annotations

import click

from taskq_sync.cli.output import as_json, print_facts, print_json
from taskq_sync.cli.queues import print_queues
from taskq_sync.cli.target import Target, takes_target
from taskq_sync.cli.workers import print_workers
from taskq_sync.version import __version__


@click.command()
@as_json
@takes_target
def status(target: Target, as_json: bool) -> None:
    """Show what is installed, what the queues hold, and which workers there are."""
    with target.connect() as db:
        info = db.session.connection.info
        queues = db.queues.stats(db.session)
        workers = db.workers.list(db.session)
        facts = {
            "database": info.dbname,
            "server_version": f"{info.server_version // 10000}.{info.server_version % 10000}",
            "schema": target.schema.name,
            "version": db.state.version,
            "min_client": db.state.min_client,
            "package": __version__,
            "up_to_date": db.state.up_to_date,
        }
    if as_json:
        print_json({**facts, "queues": queues, "workers": workers})
        return
    print_facts((name.replace("_", " "), value) for name, value in facts.items())
    click.echo()
    print_queues(queues)
    click.echo()
    print_workers(workers)
