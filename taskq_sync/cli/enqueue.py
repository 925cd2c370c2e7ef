"""`taskq-sync enqueue`."""

from __future__ import annotations

import sys
from typing import Any

import click

from taskq_sync import codec
from taskq_sync.cli.application import load_application, takes_application
from taskq_sync.cli.output import as_json, print_json, shown
from taskq_sync.cli.parameters import duration, instant, json_object
from taskq_sync.cli.target import Target, takes_target
from taskq_sync.options import UNIQUE_MODES, UNIQUE_SCOPES, JobOptions
from taskq_sync.registry import DEFAULT_QUEUE

_SAID = {
    "created": "job {} enqueued",
    "existed": "job {} has the unique key already",
    "replaced": "job {} had the unique key and not been started: it has this request now",
    "running": "job {} has the unique key and has been started: nothing was enqueued",
}


@click.command()
@click.argument("task")
@click.argument("payload", default="{}")
@click.option("--queue", help="The queue. Default: the task's with --app, else default.")
@click.option("--delay", type=duration, help="Run no sooner than after this time: 90, 90s, 1.5m, 2h, 1d.")
@click.option("--at", "scheduled_at", type=instant, help="Run no sooner than at this instant, in ISO 8601.")
@click.option("--priority", type=int, help="Higher runs first. Default: 0.")
@click.option("--unique-key", metavar="KEY", help="Make no second job while one with this key is live.")
@click.option(
    "--unique-mode",
    type=click.Choice(UNIQUE_MODES),
    help="What becomes of a job with the key that has not been started. Default: keep.",
)
@click.option(
    "--unique-scope",
    type=click.Choice(UNIQUE_SCOPES),
    help="Whether a job has its key until it has ended, or until it is started. Default: live.",
)
@click.option(
    "--unique-for", type=duration, help="A job has its key at least this long, whatever becomes of it."
)
@click.option(
    "--ordered",
    is_flag=True,
    default=None,
    help="Run it after all older ordered jobs of its concurrency key.",
)
@click.option("--concurrency-key", metavar="KEY", help="Share the limit of this key with other jobs.")
@click.option("--max-attempts", type=int, help="Failures after which the job ends. Default: 5.")
@click.option("--backoff", type=duration, help="Pause after the first failure; it doubles each time.")
@click.option("--backoff-max", type=duration, help="The longest such pause.")
@click.option("--lease", type=duration, help="How long a worker may be silent before another one takes over.")
@click.option("--ttl", type=duration, help="End the job if it has not run within this time.")
@click.option("--headers", type=json_object, help="A JSON object for whoever looks at the job.")
@takes_application
@as_json
@takes_target
def enqueue(
    target: Target,
    task: str,
    payload: str,
    queue: str | None,
    app: str | None,
    imports: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue one job of TASK.

    PAYLOAD is a JSON object; - reads it from standard input.

    With --app or --import the task must be known there and take the payload, and its own options hold where
    the command says nothing. Without, any name goes: a worker somewhere will know it.
    """
    document = json_object(sys.stdin.read() if payload == "-" else payload, "PAYLOAD")
    text = codec.to_json(document, "payload")
    job = JobOptions(**options)
    known = app is not None or bool(imports)
    if known:
        spec = load_application(app, imports, target).registry.get(task)
        spec.structure(document)
        task, queue, job = spec.name, queue or spec.queue, spec.with_keys(job.merged_over(spec.options), text)
    queue = queue or DEFAULT_QUEUE
    with target.connect() as db:
        done = db.jobs.enqueue(db.session, queue, task, text, job, True)
    if as_json:
        print_json(done)
    else:
        # With an application the queue is that of the task; without one nobody may serve it.
        where = "" if known or not done.created else f" in queue {shown(queue)}"
        click.echo(_SAID[done.status].format(done.job_id) + where)
