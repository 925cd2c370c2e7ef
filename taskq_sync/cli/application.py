"""Finding the user's `TaskQ` by what the command line says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from taskq_sync.cli.parameters import names
from taskq_sync.cli.target import Target
from taskq_sync.client import TaskQ
from taskq_sync.errors import ConfigError
from taskq_sync.worker.application import Application

_Command = TypeVar("_Command", bound=Callable[..., Any])

_APP_HELP = "Where the TaskQ is: module:attribute, or module if it has just one."
_IMPORT_HELP = "Modules with tasks, to be imported. Without --app the TaskQ is the one that they use."


def takes_application(command: _Command) -> _Command:
    """Give a command the options `--app` and `--import`, as its arguments *app* and *imports*."""
    command = click.option("--import", "imports", type=names, default="", help=_IMPORT_HELP)(command)
    return click.option("--app", metavar="MODULE:ATTRIBUTE", help=_APP_HELP)(command)


def load_application(app: str | None, imports: Iterable[str], target: Target) -> TaskQ:
    """Import the modules and return the program's `TaskQ`, which works on the database of the options.

    Raises `ConfigError` if a module or attribute is missing, if it is not clear which `TaskQ` is meant, or if
    the program has chosen another database. What a module itself raises passes through.
    """
    chosen = (("--dsn", "TASKQ_DSN", target.dsn_option), ("--schema", "TASKQ_SCHEMA", target.schema_option))
    for _, variable, value in chosen:
        if value is not None:
            os.environ[variable] = value
    tq = Application(app=app, imports=imports).load()
    config = tq.database.config
    for (option, _, wanted), used in zip(chosen, (config.dsn, config.schema), strict=True):
        if wanted is not None and wanted != used:
            raise ConfigError(
                f"the program gives its TaskQ a database of its own, so {option} would be ignored",
                hint=f"leave {option} out, or let the program make TaskQ() without it",
            )
    return tq
