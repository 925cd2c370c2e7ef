"""`python -m benchmarks soak`."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.site import database, own_server, warnings
from benchmarks.soak.report import Report
from benchmarks.soak.run import Plan, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=10,
    show_default=True,
    help="How long jobs come.",
)
@click.option("--seed", type=int, help="Which jobs come and when what is killed. Default: made up, and told.")
@click.option(
    "--dsn",
    envvar="TASKQ_DSN",
    help="A server that may make databases; it is not restarted. One is started without it, and is.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@click.option("--rate", type=click.FloatRange(1), default=200, show_default=True, help="Jobs per second.")
@click.option(
    "--slots", type=click.IntRange(1), default=8, show_default=True, help="Of each of the three workers."
)
@click.option(
    "--kill-every", type=click.FloatRange(1), default=20, show_default=True, help="Seconds between two kills."
)
@click.option(
    "--restart-every",
    type=click.FloatRange(1),
    default=60,
    show_default=True,
    help="Seconds between two restarts of the server.",
)
@click.option(
    "--max-growth",
    type=click.FloatRange(0),
    default=5,
    show_default=True,
    help="By how many percent what a worker holds may grow.",
)
def soak(
    minutes: float,
    seed: int | None,
    dsn: str | None,
    as_json: bool,
    rate: float,
    slots: int,
    kill_every: float,
    restart_every: float,
    max_growth: float,
) -> None:
    """Run jobs of all kinds while workers are killed and the server is restarted, then count.

    Exit code 1 when a job was lost, was settled twice, failed unasked, or is wrong in another way, when a worker ended
    by itself, and when memory, threads, descriptors or sessions have grown.
    """
    if not Path("/proc/self/statm").exists():
        raise click.ClickException("soak reads /proc, which this system does not have: run it on Linux")
    plan = Plan(
        seconds=minutes * 60,
        seed=random.randrange(10**6) if seed is None else seed,
        rate=rate,
        slots=slots,
        kill_every=kill_every,
        restart_every=restart_every,
    )
    folder = Path(tempfile.mkdtemp(prefix="taskq-soak-"))
    _note(f"logs of the workers, kept when something is wrong: {folder}")
    report = _run(plan, dsn, folder)
    if as_json:
        click.echo(report.to_json())
    else:
        Console().print(_table(report))
    problems = list(report.problems(max_growth))
    for problem in problems:
        _note(f"wrong: {problem}")
    if problems:
        sys.exit(1)
    shutil.rmtree(folder)


def _run(plan: Plan, dsn: str | None, folder: Path) -> Report:
    with ExitStack() as stack:
        server = None
        if dsn is None:
            server = stack.enter_context(own_server())
            dsn = server.dsn
        else:
            _note("the server of --dsn is somebody else's, so it is not restarted")
        for warning in warnings(dsn):
            _note(f"warning: {warning}")
        return run(plan, stack.enter_context(database(dsn)), server, folder)


def _note(text: str) -> None:
    click.echo(text, err=True)


def _table(report: Report) -> Table:
    table = Table("figure", "value", show_header=False)
    for name, value in report.figures().items():
        table.add_row(name, str(value))
    return table
