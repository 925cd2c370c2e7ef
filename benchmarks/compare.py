"""The benchmarks with two sides, the product and its floor: a command for each, and one for all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import click
from rich.console import Console
from rich.status import Status
from rich.table import Table

from benchmarks import backlog, claim, drain, enqueue_many, harness, payload, scale, settle, xmin
from benchmarks.benchmark import Benchmark, Incorrect, Scale
from benchmarks.figures import Figure
from benchmarks.site import Site, machine, server, site, takes_server, warnings

BENCHMARKS: Mapping[str, Callable[[Site, Scale], Generator[Benchmark, None, None]]] = {
    "drain": drain.benchmarks,
    "claim": claim.benchmarks,
    "settle": settle.benchmarks,
    "enqueue_many": enqueue_many.benchmarks,
    "backlog": backlog.benchmarks,
    "payload": payload.benchmarks,
    "xmin": xmin.benchmarks,
    "scale": scale.benchmarks,
}

_ABOUT: Mapping[str, str] = {
    "drain": "Worker processes that run jobs which do nothing.",
    "claim": "Claims under contention.",
    "settle": "Verdicts in batches.",
    "enqueue_many": "Jobs enqueued in bulk.",
    "backlog": "Claims and drains beside a million jobs that wait, and five million that are done.",
    "payload": "Jobs with large payloads.",
    "xmin": "Claims while a session elsewhere holds an old snapshot.",
    "scale": "Workers far from the server.",
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
)

_notes = Console(stderr=True)

#: A table in a file or a pipe: as wide as it needs.
_output = Console(width=None if sys.stdout.isatty() else 130)


def commands() -> Iterator[click.Command]:
    """Return the commands."""
    for name, about in _ABOUT.items():
        yield _command(name, [name], about)
    yield _command("all", list(BENCHMARKS), "These four, one after the other.")


def _command(command: str, names: Sequence[str], about: str) -> click.Command:
    def call(as_json: bool, dsn: str | None, pairs: int, jobs: int | None, only: str, smoke: bool) -> None:
        scale = Scale(jobs=jobs, smoke=smoke)
        try:
            with server(dsn) as server_dsn:
                _run(server_dsn, names, scale, pairs=1 if smoke else pairs, only=only, as_json=as_json)
        except Incorrect as error:
            click.echo(f"incorrect: {error}", err=True)
            sys.exit(1)

    for option in reversed(_OPTIONS):
        call = option(call)
    return click.command(command, help=f"{about} Against what PostgreSQL can do by itself.")(call)


def _run(
    server_dsn: str, names: Sequence[str], scale: Scale, *, pairs: int, only: str, as_json: bool
) -> None:
    where = machine(server_dsn)
    for warning in warnings(server_dsn):
        _notes.print(f"warning: {warning}")
    for name in names:
        table = figures_table(f"{name}: PostgreSQL {where.server}, Python {where.python}, {where.cpus} CPUs")
        for figure in _figures(server_dsn, name, scale, pairs, only):
            if as_json:
                click.echo(figure.to_json(where))
            else:
                table.add_row(*figure_row(figure))
        if not as_json:
            _output.print(table)


def _figures(server_dsn: str, name: str, scale: Scale, pairs: int, only: str) -> Iterator[Figure]:
    with (
        site(server_dsn) as place,
        closing(BENCHMARKS[name](place, scale)) as benchmarks,
        _notes.status(name) as status,
    ):
        for benchmark in benchmarks:
            label = benchmark.measures[0].name
            if only not in label:
                continue
            progress = partial(_show, status, label, pairs)
            yield from harness.run(benchmark, pairs=pairs, warm_up=not scale.smoke, progress=progress)


def _show(status: Status, label: str, pairs: int, done: int) -> None:
    status.update(f"{label}: pair {done + 1} of {pairs}")


def figures_table(title: str) -> Table:
    """Return an empty table for figures."""
    table = Table(title=title, title_justify="left")
    table.add_column("measure", no_wrap=True)
    for column in ("value", "floor", "unit", "ratio", "quartiles", "pairs"):
        table.add_column(column, justify="right", no_wrap=True)
    return table


def figure_row(figure: Figure) -> tuple[str, ...]:
    """Return the cells of a figure's line in it."""
    return (
        figure.measure,
        _number(figure.value),
        _number(figure.floor),
        figure.unit,
        f"{figure.ratio:.2f}",
        f"{figure.q25:.2f} to {figure.q75:.2f}",
        str(figure.n),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
