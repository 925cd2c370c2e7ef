"""`taskq-sync jobs`: look at jobs, cancel them, and put them back."""

from __future__ import annotations

import click

from taskq_sync.cli.output import as_json, print_facts, print_json, print_table, shown
from taskq_sync.cli.parameters import takes_actor, takes_reason
from taskq_sync.cli.target import Target, takes_target
from taskq_sync.errors import JobNotFound, WrongState
from taskq_sync.model import Attempt, Job

STATUSES = ("blocked", "queued", "running", "succeeded", "failed", "cancelled")


@click.group()
def jobs() -> None:
    """Look at jobs, cancel them, and put them back."""


@jobs.command("list")
@click.option("--queue", help="Only of this queue.")
@click.option("--task", help="Only of this task.")
@click.option("--status", type=click.Choice(STATUSES), help="Only in this status.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option(
    "--before", "before_id", type=int, metavar="ID", help="Only older than this job: the next page."
)
@as_json
@takes_target
def list_jobs(
    target: Target,
    queue: str | None,
    task: str | None,
    status: str | None,
    limit: int,
    before_id: int | None,
    as_json: bool,
) -> None:
    """List jobs, the newest first."""
    with target.connect() as db:
        found = db.jobs.list(
            db.session, queue=queue, task=task, status=status, limit=limit, before_id=before_id
        )
    if as_json:
        print_json(found)
        return
    print_table(
        ("#id", "queue", "task", "status", "outcome", "#attempts", "created", "due or ended", "error"),
        (
            (
                job.id,
                job.queue,
                job.task,
                job.status,
                job.outcome,
                job.attempt_count,
                job.created_at,
                job.finished_at or job.scheduled_at,
                (job.error or job.reason or "").partition("\n")[0][:80],
            )
            for job in found
        ),
        empty="no jobs",
    )


@jobs.command()
@click.argument("job_id", type=int)
@as_json
@takes_target
def show(target: Target, job_id: int, as_json: bool) -> None:
    """Show one job and its attempts."""
    with target.connect() as db:
        job = db.jobs.get(db.session, job_id)
        attempts = db.jobs.history(db.session, job_id)
    if as_json:
        print_json({"job": job, "attempts": attempts})
        return
    print_facts(_facts(job))
    click.echo()
    print_table(
        ("#attempt", "worker", "claimed", "ended", "verb", "status", "outcome", "error or reason"),
        map(_attempt_row, attempts),
        empty="no attempts",
    )


@jobs.command()
@click.argument("job_ids", type=int, nargs=-1, required=True)
@click.option("--reason", help="Why; kept with the job and in the audit.")
@takes_actor
@as_json
@takes_target
def cancel(target: Target, job_ids: tuple[int, ...], reason: str | None, actor: str, as_json: bool) -> None:
    """Cancel jobs.

    A queued one is cancelled at once; the handler of a running one is asked to stop. Exits with 1 if one of
    them had already ended or is not there; the others are cancelled all the same.
    """
    results, missing = [], []
    with target.connect() as db:
        for job_id in job_ids:
            try:
                results.append(db.jobs.cancel(db.session, job_id, actor=actor, reason=reason))
            except JobNotFound as error:
                missing.append(error)
    if as_json:
        print_json(results)
    else:
        said = {"requested": "asked to stop", "cancelled": "cancelled"}
        for each in results:
            ended = f"had already ended: {each.status}"
            click.echo(f"job {each.job_id} {said.get(each.result, ended)}")
    for absent in missing:
        click.echo(f"taskq-sync: {shown(absent)}", err=True)
    if missing or any(each.result == "already_ended" for each in results):
        raise click.exceptions.Exit(1)


@jobs.command()
@click.argument("job_ids", type=int, nargs=-1, required=True)
@takes_reason
@takes_actor
@as_json
@takes_target
def redrive(target: Target, job_ids: tuple[int, ...], reason: str | None, actor: str, as_json: bool) -> None:
    """Put failed or cancelled jobs back into their queues.

    They are due at once, and all their attempts are allowed again. Exits with 1 if one of them was not put
    back: it has succeeded, is live already, is not there, or another job has its unique key. The others are put
    back all the same.
    """
    results, refused = [], []
    with target.connect() as db:
        for job_id in job_ids:
            try:
                results.append(db.jobs.redrive(db.session, job_id, actor=actor, reason=reason))
            except (JobNotFound, WrongState) as error:
                refused.append(str(error))
    if as_json:
        print_json(results)
    else:
        said = {
            "redriven": "put back",
            "already_live": "is live already",
            "key_taken": "not put back: another job has its unique key",
        }
        for each in results:
            click.echo(f"job {each.job_id} {said[each.result]}")
    for why in refused:
        click.echo(f"taskq-sync: {shown(why)}", err=True)
    if refused or any(each.result != "redriven" for each in results):
        raise click.exceptions.Exit(1)


def _facts(job: Job) -> list[tuple[str, object]]:
    outcome = f" ({job.outcome})" if job.outcome else ""
    return [
        ("job", job.id),
        ("task", job.task),
        ("queue", job.queue),
        ("status", job.status + outcome),
        ("error", job.error),
        ("reason", job.reason),
        ("result", _unless("null", job.result_json)),
        ("payload", job.payload_json),
        ("headers", _unless("{}", job.headers_json)),
        ("progress", _unless("null", job.progress_json)),
        ("priority", job.priority),
        ("unique key", job.unique_key),
        ("concurrency key", job.concurrency_key),
        ("held", job.hold),
        ("failures", f"{job.failure_count} of at most {job.max_attempts}, {job.attempt_count} attempts"),
        ("backoff", job.backoff),
        ("lease", job.lease),
        ("created", job.created_at),
        ("ordered", "yes" if job.ordered else None),
        ("enqueued by", job.enqueued_by),
        ("due", job.scheduled_at),
        ("expires", job.expires_at),
        ("worker", job.worker_id),
        ("lease ends", job.lease_expires_at),
        ("cancel asked", job.cancel_requested_at),
        ("ended", job.finished_at),
        ("kept until", job.purge_at),
        ("parent", job.parent_job_id),
    ]


def _unless(nothing: str, text: str | None) -> str | None:
    return None if text == nothing else text


def _attempt_row(each: Attempt) -> tuple[object, ...]:
    error = (each.error or each.reason or "").strip().rpartition("\n")[2]
    return (
        each.attempt_id,
        each.worker_id,
        each.claimed_at,
        each.ended_at,
        each.verb,
        each.status,
        each.outcome,
        error[:120],
    )
