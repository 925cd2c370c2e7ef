"""Finding the user's `TaskQ` by what the command line says."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar

import click

from taskq_sync.cli.parameters import names
from taskq_sync.cli.target import Target
from taskq_sync.client import TaskQ
from taskq_sync.errors import ConfigError

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
    tq = _find(app, imports)
    config = tq.database.config
    for (option, _, wanted), used in zip(chosen, (config.dsn, config.schema), strict=True):
        if wanted is not None and wanted != used:
            raise ConfigError(
                f"the program gives its TaskQ a database of its own, so {option} would be ignored",
                hint=f"leave {option} out, or let the program make TaskQ() without it",
            )
    return tq


def _find(app: str | None, imports: Iterable[str]) -> TaskQ:
    # As with `python -m`: a console script leaves the current folder out.
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 (a text, as it stands in sys.path)
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    modules = [_import(name) for name in imports]
    if app is None:
        if not modules:
            raise ConfigError(
                "no tasks to work with", hint="say --app module:attribute, or --import a.tasks,b.tasks"
            )
        return _only_one(modules)
    name, _, attribute = app.partition(":")
    module = _import(name)
    return _attribute(module, attribute) if attribute else _only_one([module])


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module itself or a package on the way to it; what it imports in turn is a fault of the program.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise ConfigError(
            f"there is no module {error.name!r}", hint="run from the folder it lies in, or install it"
        ) from error


def _attribute(module: ModuleType, path: str) -> TaskQ:
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, TaskQ):
        others = ", ".join(
            f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, TaskQ)
        )
        raise ConfigError(
            f"{module.__name__}:{path} is no TaskQ", hint=f"in this module there is: {others or 'none'}"
        )
    return found


def _only_one(modules: Iterable[ModuleType]) -> TaskQ:
    modules = list(modules)
    found = {
        id(each): each for module in modules for each in vars(module).values() if isinstance(each, TaskQ)
    }
    if len(found) != 1:
        names = ", ".join(module.__name__ for module in modules)
        count = "several" if found else "no"
        raise ConfigError(f"{names} has {count} TaskQ", hint="say which with --app module:attribute")
    return next(iter(found.values()))
