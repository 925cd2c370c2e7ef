"""`taskq-sync worker`."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from taskq_sync import logs
from taskq_sync.cli.application import load_application, takes_application
from taskq_sync.cli.output import print_json
from taskq_sync.cli.parameters import duration, size, weighted_names
from taskq_sync.cli.target import Target, open_session, takes_target
from taskq_sync.db.schema import Schema
from taskq_sync.worker import Application, Worker
from taskq_sync.worker.events import WorkerEnded
from taskq_sync.worker.membership import Membership
from taskq_sync.worker.memory import resident_memory
from taskq_sync.worker.supervisor import Supervisor, Tether

_LEVELS = ("debug", "info", "warning", "error")

MAX_PROCESSES = 256

_OF_ONE_PROCESS = {"worker_id": "--worker-id", "singleton": "--singleton", "as_json": "--json"}


class _WorkerCommand(click.Command):
    """Keeps the words it was called with, for the processes of a supervisor."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=_WorkerCommand)
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
@click.option(
    "--wait-for-delayed",
    type=duration,
    help="With --burst: when nothing is due, wait for what becomes due within this time. Default: 0s.",
)
@click.option("--max-jobs", type=click.IntRange(1), help="End after so many jobs.")
@click.option("--max-seconds", type=duration, help="Begin to stop after this time.")
@click.option(
    "--fail-on-error",
    is_flag=True,
    help="Exit with 4 instead of 0 if jobs have failed, and did not recover in this run.",
)
@click.option(
    "--singleton",
    metavar="NAME",
    help="End at once, with exit code 0, while another worker of this name runs.",
)
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
    "--heartbeat",
    type=click.Choice(("thread", "process")),
    help="Who sends the heartbeats; a process also does while a handler's call in C keeps the interpreter to itself. "
    "Default: thread.",
)
@click.option(
    "--stall-limit",
    type=duration,
    help="How long the worker may seem stuck before its heartbeat process lets go of its jobs. Default: 10m.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, MAX_PROCESSES),
    default=1,
    show_default=True,
    help="How many processes run jobs, each with its own slots, under a supervisor that replaces those that die.",
)
@click.option(
    "--max-jobs-per-child",
    type=click.IntRange(1),
    help="A process is replaced after so many jobs; those that run have their time.",
)
@click.option(
    "--max-memory-per-child",
    type=size,
    metavar="SIZE",
    help="A process is replaced once it takes so much memory, such as 512MB; jobs that run have their time.",
)
@click.option(
    "--worker-id", metavar="NAME", help="Who this is; must be new for each start. Default: made up."
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    help="What is logged to stderr. Default: info, with --burst warning.",
)
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    default="text",
    show_default=True,
    help="How it is written: as text, or as one JSON object a line.",
)
@click.option("--json", "as_json", is_flag=True, help="With --burst: print one JSON object at the end.")
@takes_target
@click.pass_obj
def worker(
    arguments: tuple[str, ...],
    /,
    target: Target,
    app: str | None,
    imports: tuple[str, ...],
    log_level: str | None,
    log_format: str,
    as_json: bool,
    processes: int,
    **options: Any,
) -> None:
    """Run jobs.

    Goes on until a signal, or with --burst until there is nothing more to run.

    SIGTERM and SIGINT stop it softly: it takes no more jobs and waits for those that run. A second signal does
    not wait; the same one again within a second is no second one.

    Exit codes: 0 drained, or the singleton runs already; 1 a part of the worker died, a hook refused the start, or
    the last outcomes were not delivered; 2 usage; 3 there were handlers that would not end; 4 jobs have failed, with
    --fail-on-error; 69 the database does not answer.
    """
    if as_json and not options["burst"]:
        raise click.UsageError("--json says what a burst has done: add --burst")
    if options["wait_for_delayed"] and not options["burst"]:
        raise click.UsageError("--wait-for-delayed says how long a burst waits: add --burst")
    if log_level is None:
        log_level = "warning" if options["burst"] else "info"
    logs.set_up(log_level.upper(), log_format)
    membership = Membership.from_environment()
    if membership is None and _needs_supervisor(processes, options):
        sys.exit(_supervise(arguments, processes, {**options, "as_json": as_json or None}))
    tether = None if membership is None else Tether(membership)
    with contextlib.nullcontext() if tether is None else tether.preparing():
        tq = load_application(app, imports, target)
        options["application"] = Application(
            app=app, imports=imports, log_level=log_level.upper(), log_format=log_format
        )
        options["membership"] = membership
        made = Worker(tq, **{name: value for name, value in options.items() if value is not None})
        _check_memory(made.config.max_memory_per_child)
        if as_json:  # by an observer, for the process may end within run(), with threads in it that will not
            made.events.subscribe(WorkerEnded, lambda event: print_json(made.summary.facts()))
        # The worker would find out too, and tell its log. Who types a wrong DSN gets a sentence.
        with open_session(tq.database) as session:
            Schema(tq.database.config.schema).check_client(session.connection)
    with tq:
        sys.exit(made.run() if tether is None else tether.run(made))


def _needs_supervisor(processes: int, options: dict[str, Any]) -> bool:
    limits = (options["max_jobs_per_child"], options["max_memory_per_child"])
    return processes > 1 or any(limit is not None for limit in limits)


def _supervise(arguments: tuple[str, ...], processes: int, options: dict[str, Any]) -> int:
    for name, option in _OF_ONE_PROCESS.items():
        if options.get(name) is not None:
            raise click.UsageError(
                f"{option} is for one process, and a supervisor starts many: leave it out."
            )
    # The last one counts: a process of the supervisor is one process.
    return Supervisor(
        [*arguments, "--processes", "1"], processes=processes, replaces=not options["burst"]
    ).run()


def _check_memory(limit: int | None) -> None:
    """Refuse a limit under which no job would ever be run."""
    taken = resident_memory()
    if limit is not None and taken > limit:
        raise click.UsageError(
            f"--max-memory-per-child is {limit} bytes, and the program takes {taken} before it has run a job."
        )
