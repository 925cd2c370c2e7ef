"""`taskq-sync demo`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from taskq_sync.cli.output import as_json, print_json, print_table
from taskq_sync.demo import Report, run_demo
from taskq_sync.demo.run import Progress as Tell


@click.command()
@click.option("--limit", type=click.IntRange(1), help="Index so many files at most.")
@click.option("--chaos", is_flag=True, help="Use two worker processes, and kill one of them in the middle.")
@as_json
def demo(limit: int | None, chaos: bool, as_json: bool) -> None:
    """Index the Python standard library, one job for each file, and prove that no job is lost.

    Needs no configuration and no database: it starts a server of its own (it comes with the extra embedded) in a
    temporary folder, and removes it at the end. Ends with 0 only if the proof holds.
    """
    with _progress_bar() as tell:
        report = run_demo(limit=limit, chaos=chaos, tell=tell)
    if as_json:
        print_json(_facts(report))
    else:
        _print(report)
    sys.exit(0 if report.proven else 1)


@contextmanager
def _progress_bar() -> Iterator[Tell]:
    """Lend a function that shows the progress on stderr, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def tell(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total or None)

        yield tell


def _facts(report: Report) -> dict[str, object]:
    """Return the report as one flat object."""
    return {
        "enqueued": report.enqueued,
        "succeeded": report.counts.of("succeeded"),
        "failed": report.counts.of("failed"),
        "cancelled": report.counts.of("cancelled"),
        "lost": report.lost,
        "outcomes": {outcome: count for (_, outcome), count in report.counts.by_outcome.items()},
        "snoozes": report.snoozes,
        "retried": report.retried,
        "workers_killed": report.killed,
        "taken_back": report.taken_back,
        "started_twice": report.started_twice,
        "lines": report.lines,
        "biggest": report.biggest,
        "seconds": round(report.seconds, 3),
        "jobs_per_second": round(report.enqueued / report.seconds, 1),
        "problems": report.problems,
        "proven": report.proven,
    }


#: What an outcome means here.
_EXPLANATIONS = {
    "success": "a file was read and parsed",
    "non_retryable": "a file does not parse, among them two that the demo wrote",
    "retry_exhausted": "the demo named a file that does not exist; two attempts",
    "cancelled": "one by its handler, one by an operator",
    "expired_ttl": "the demo put it in a queue that nobody serves",
    "poison": "three workers in a row died of it",
}


def _print(report: Report) -> None:
    print_table(
        ("status", "outcome", "#jobs", "what happened"),
        (
            (status, outcome, count, _EXPLANATIONS.get(outcome))
            for (status, outcome), count in report.counts.by_outcome.items()
        ),
        empty="no jobs",
    )
    click.echo()
    print_table(
        ("biggest modules", "#lines", "#functions", "#classes"),
        ((each.path, each.lines, each.functions, each.classes) for each in report.biggest),
        empty="no modules",
    )
    click.echo()
    click.echo(
        f"{report.lines:,} lines in {report.seconds:.1f} s, {report.enqueued / report.seconds:.0f} jobs/s; "
        f"{report.snoozes} snoozes, {report.retried} jobs succeeded after a failure"
    )
    if report.killed:
        click.echo(
            f"{report.killed} of 2 workers was killed at work: {report.taken_back} jobs were taken back, "
            f"{report.started_twice} of them were started twice"
        )
    _print_proof(report)


def _print_proof(report: Report) -> None:
    counts = report.counts
    click.echo(
        f"enqueued {report.enqueued} {'=' if report.lost == 0 else '≠'} succeeded {counts.of('succeeded')} + "
        f"failed {counts.of('failed')} + cancelled {counts.of('cancelled')}: {report.lost} lost"
    )
    if counts.all != report.enqueued:
        click.echo(f"the database has {counts.all} jobs instead")
    for problem in report.problems:
        click.echo(problem)
