"""`taskq-sync worker`."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from taskq_sync.cli.application import load_application, takes_application
from taskq_sync.cli.parameters import duration, weighted_names
from taskq_sync.cli.target import Target, open_session, takes_target
from taskq_sync.db.schema import Schema
from taskq_sync.worker import Application, Worker

_LEVELS = ("debug", "info", "warning", "error")
_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


@click.command()
@takes_application
@click.option(
    "--queues",
    type=weighted_names,
    metavar="NAME[:WEIGHT],...",
    help="The queues to serve; each is looked into first in proportion to its weight, which is 1 unless said: "
    "high:4,low:1. A name that ends in a colon and digits needs one: shard:2:1. Default: those of the program's "
    "tasks.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Look into the queues always in the order given: while the first has jobs, no other is served.",
)
@click.option(
    "--slots", type=click.IntRange(1, 1000), default=8, show_default=True, help="How many jobs run at a time."
)
@click.option("--burst", is_flag=True, help="Run what is due and end, instead of waiting for more.")
@click.option("--max-jobs", type=click.IntRange(1), help="End after so many jobs.")
@click.option("--max-time", "max_seconds", type=duration, help="End after this time.")
@click.option(
    "--lease", type=duration, help="The lease of the jobs it takes. Default: as they were enqueued."
)
@click.option(
    "--beat", type=duration, help="Time between two heartbeats. Default: a third of the shortest lease."
)
@click.option(
    "--poll-interval", type=duration, help="Time between two looks when idle. Default: 5s, 1s without LISTEN."
)
@click.option(
    "--soft-stop-timeout", type=duration, help="How long a stop waits for handlers. Default: without end."
)
@click.option(
    "--take-back-every",
    type=duration,
    help="Time between two looks for jobs whose worker is gone. Default: 5s.",
)
@click.option(
    "--stop-grace",
    type=duration,
    help="How long a handler past its time limit, or cancelled, has to end. Then its child process is killed, "
    "or its thread is given up. Default: 5s.",
)
@click.option(
    "--max-stuck",
    type=click.IntRange(0),
    help="How many threads that will not end are replaced. With one more the worker stops, with exit code 3. "
    "Default: as many as slots.",
)
@click.option(
    "--isolated-max-jobs",
    type=click.IntRange(1),
    help="A child process for isolated tasks is replaced after so many jobs. Default: 100.",
)
@click.option(
    "--worker-id", metavar="NAME", help="Who this is; must be new for each start. Default: made up."
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="What is logged to stderr.",
)
@takes_target
def worker(
    target: Target,
    app: str | None,
    imports: tuple[str, ...],
    log_level: str,
    **options: Any,
) -> None:
    """Run jobs.

    Goes on until a signal, or with --burst until there is nothing more to run.

    SIGTERM and SIGINT stop it softly: it takes no more jobs and waits for those that run. A second signal does
    not wait.
    """
    logging.basicConfig(level=log_level.upper(), format=_LOG_FORMAT, stream=sys.stderr)
    tq = load_application(app, imports, target)
    options["application"] = Application(
        app=app, imports=imports, log_level=log_level.upper(), log_format=_LOG_FORMAT
    )
    given = {name: value for name, value in options.items() if value is not None}
    made = Worker(tq, **given)
    # The worker would find out too, and tell its log. Who types a wrong DSN gets a sentence.
    with open_session(tq.database) as session:
        Schema(tq.database.config.schema).check_client(session.connection)
    with tq:
        sys.exit(made.run())
