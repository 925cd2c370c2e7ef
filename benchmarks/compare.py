"""The benchmarks with two sides, the product and its floor: a command for each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import click
from attrs import frozen
from rich.console import Console
from rich.status import Status

from benchmarks import (
    backlog,
    claim,
    cost,
    counting,
    drain,
    enqueue,
    enqueue_many,
    harness,
    latency,
    payload,
    plot,
    scale,
    settle,
    xmin,
)
from benchmarks.benchmark import Benchmark, Incorrect, Scale
from benchmarks.figures import Figure, figures_table
from benchmarks.site import Site, machine, server, site, takes_server, warnings

#: In the order of `all`.
BENCHMARKS: Mapping[str, Callable[[Site, Scale], Generator[Benchmark, None, None]]] = {
    "claim": claim.benchmarks,
    "settle": settle.benchmarks,
    "drain": drain.benchmarks,
    "enqueue": enqueue.benchmarks,
    "enqueue_many": enqueue_many.benchmarks,
    "latency": latency.benchmarks,
    "backlog": backlog.benchmarks,
    "payload": payload.benchmarks,
    "xmin": xmin.benchmarks,
    "scale": scale.benchmarks,
    "cost": cost.benchmarks,
}

_ABOUT: Mapping[str, str] = {
    "claim": "Claims under contention.",
    "settle": "Verdicts in batches.",
    "drain": "Worker processes that run jobs which do nothing.",
    "enqueue": "Jobs enqueued one by one.",
    "enqueue_many": "Jobs enqueued in bulk.",
    "latency": "From an enqueue into an idle queue to the start of the job.",
    "backlog": "Claims and drains beside a million jobs that wait, and five million that are done.",
    "payload": "Jobs with large payloads.",
    "xmin": "Claims while a session elsewhere holds an old snapshot.",
    "scale": "Workers far from the server.",
    "cost": "What each stage of a job costs the server.",
}

_OPTIONS = (
    click.option("--json", "as_json", is_flag=True, help="One JSON object per measure instead of a table."),
    takes_server,
    click.option(
        "--pairs", type=click.IntRange(1), default=harness.PAIRS, show_default=True, help="Runs of each side."
    ),
    click.option(
        "--jobs", type=click.IntRange(1), help="Jobs of one run, instead of each benchmark's own number."
    ),
    click.option("--only", default="", help="Only the measures whose name has this text in it."),
    click.option(
        "--smoke", is_flag=True, help="A few jobs and one pair: checks that all works, measures nothing."
    ),
    click.option(
        "--plot", "picture", type=click.Path(dir_okay=False, writable=True), help="A PNG of the ratios."
    ),
)

_notes = Console(stderr=True)

#: A table in a file or a pipe: as wide as it needs.
_output = Console(width=None if sys.stdout.isatty() else 150)


@frozen(kw_only=True)
class Request:
    """What the user asked for, by the options."""

    scale: Scale
    pairs: int
    only: str
    as_json: bool
    picture: str | None


def commands() -> Iterator[click.Command]:
    """Return a command for each."""
    for name, about in _ABOUT.items():
        yield command(name, [name], about)


def command(name: str, names: Sequence[str], about: str) -> click.Command:
    """Return the command *name*, which runs the benchmarks *names*."""

    def call(
        as_json: bool,
        dsn: str | None,
        pairs: int,
        jobs: int | None,
        only: str,
        smoke: bool,
        picture: str | None,
    ) -> None:
        if picture is not None:
            plot.require()
        request = Request(
            scale=Scale(jobs=jobs, smoke=smoke),
            pairs=1 if smoke else pairs,
            only=only,
            as_json=as_json,
            picture=picture,
        )
        try:
            with server(dsn, counting.SETTINGS) as server_dsn:
                _run(server_dsn, names, request)
        except Incorrect as error:
            click.echo(f"incorrect: {error}", err=True)
            sys.exit(1)

    for option in reversed(_OPTIONS):
        call = option(call)
    return click.command(name, help=f"{about} Against what PostgreSQL can do by itself.")(call)


def _run(server_dsn: str, names: Sequence[str], request: Request) -> None:
    where = machine(server_dsn)
    for warning in warnings(server_dsn):
        _notes.print(f"warning: {warning}")
    drawn: list[Figure] = []
    for name in names:
        table = figures_table(f"{name}: PostgreSQL {where.server}, Python {where.python}, {where.cpus} CPUs")
        for figure in _figures(server_dsn, name, request):
            drawn.append(figure)
            if request.as_json:
                click.echo(figure.to_json(where))
            else:
                table.add_row(*figure.row())
        if not request.as_json:
            _output.print(table)
    if request.picture is not None:
        plot.write(drawn, where, request.picture)


def _figures(server_dsn: str, name: str, request: Request) -> Iterator[Figure]:
    with (
        site(server_dsn) as place,
        closing(BENCHMARKS[name](place, request.scale)) as benchmarks,
        _notes.status(name) as status,
    ):
        for benchmark in benchmarks:
            label = benchmark.measures[0].name
            if request.only not in label:
                continue
            yield from harness.run(
                benchmark,
                pairs=request.pairs,
                warm_up=not request.scale.smoke,
                again=not request.scale.smoke,
                progress=partial(_show, status, label, request.pairs),
            )


def _show(status: Status, label: str, pairs: int, done: int) -> None:
    status.update(f"{label}: pair {done + 1} of {pairs}")
