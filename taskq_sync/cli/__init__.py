"""The command line: `taskq-sync COMMAND`, or `python -m taskq_sync COMMAND`.

One file per group of commands. Exit codes: 0 done; 1 a sentence on stderr says what went wrong and what to do; 2
the command was not understood; 3 a worker gave up on handlers that would not end; 4 jobs of a worker with
--fail-on-error have failed; 69 the database does not answer; 130 interrupted.
"""

from __future__ import annotations

import click

from taskq_sync.cli.demo import demo
from taskq_sync.cli.dev import dev
from taskq_sync.cli.enqueue import enqueue
from taskq_sync.cli.errors import CommandGroup
from taskq_sync.cli.housekeep import housekeep
from taskq_sync.cli.jobs import jobs
from taskq_sync.cli.migrate import migrate
from taskq_sync.cli.output import show_what_lacks_a_character
from taskq_sync.cli.queues import queues
from taskq_sync.cli.status import status
from taskq_sync.cli.worker import worker
from taskq_sync.cli.workers import workers
from taskq_sync.version import __version__

__all__ = ["main"]


@click.group(
    cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="taskq-sync")
def main() -> None:
    """A PostgreSQL job queue for synchronous Python.

    The database is the one of --dsn, else TASKQ_DSN, DATABASE_URL or PostgreSQL's own PG* variables.
    """
    show_what_lacks_a_character()


for _command in (demo, dev, enqueue, housekeep, jobs, migrate, queues, status, worker, workers):
    main.add_command(_command)
