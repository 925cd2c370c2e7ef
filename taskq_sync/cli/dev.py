"""`taskq-sync dev`."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click

from taskq_sync.cli.application import takes_application
from taskq_sync.cli.reload import ReloadedWorker
from taskq_sync.cli.sources import Sources, places_of
from taskq_sync.cli.target import Target
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.logs import FORMATS
from taskq_sync.worker.config import new_worker_id
from taskq_sync.worker.supervisor import SupervisedProcess, Wakeups


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: default_folder(),
    help="Where the server keeps its data. Default: /var/lib/taskq-sync/dev for root, else "
    "$XDG_STATE_HOME/taskq-sync/dev.",
)
@click.option("--schema", metavar="NAME", help="The schema of the jobs, else TASKQ_SCHEMA, else taskq.")
@click.option(
    "--slots", type=click.IntRange(1, 1000), default=8, show_default=True, help="Slots of the worker."
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How the worker writes its log: as text, or as one JSON object a line.",
)
@click.option("--no-reload", is_flag=True, help="Do not start the worker anew when the program changes.")
@takes_application
def dev(
    folder: Path,
    schema: str | None,
    slots: int,
    log_format: str,
    no_reload: bool,
    app: str | None,
    imports: tuple[str, ...],
) -> None:
    """Run a database for development, and a worker for your tasks.

    Starts a PostgreSQL server in a folder (it comes with the extra embedded), brings the schema up to date and
    prints the DSN. With --app or --import it runs a worker, which starts anew when the program changes. Ctrl-C or
    SIGTERM stops both, the worker first; the data stays for the next time.
    """
    with Wakeups() as wakeups, EmbeddedServer(folder) as server:
        target = Target(server.dsn, schema)
        with target.open() as session:
            target.schema.migrate(session.connection)
        click.echo(f"TASKQ_DSN={server.dsn}")
        if app is None and not imports:
            click.echo("no worker without --app or --import; Ctrl-C stops the database", err=True)
            while not wakeups.stop_wanted:
                wakeups.wait(None)
        else:
            modules = [*imports, *([] if app is None else [app])]
            sources = None if no_reload else Sources(places_of(modules), without=folder)
            start = partial(_start_worker, target, _worker_options(app, imports, slots, log_format))
            sys.exit(ReloadedWorker(start, sources, wakeups).run())


def default_folder() -> Path:
    """Return where the development server keeps its data unless told otherwise."""
    if os.geteuid() == 0:
        # The account of root's server could not enter /root.
        return Path("/var/lib/taskq-sync/dev")
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "taskq-sync" / "dev"


def _start_worker(target: Target, arguments: list[str]) -> SupervisedProcess:
    return SupervisedProcess(
        arguments,
        supervisor=new_worker_id(),
        place=0,
        env={
            "TASKQ_DSN": target.dsn_option or "",
            "TASKQ_SCHEMA": target.schema.name,
            # Python knows a compiled file by the second and the size of its source: too little for two quick edits.
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )


def _worker_options(app: str | None, imports: tuple[str, ...], slots: int, log_format: str) -> list[str]:
    options = ["--slots", str(slots), "--log-format", log_format]
    if app is not None:
        options += ["--app", app]
    if imports:
        options += ["--import", ",".join(imports)]
    return options
