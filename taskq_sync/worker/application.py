"""Finding the user's `TaskQ` by names, as the command line and a child process know it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from types import ModuleType

from attrs import field, frozen

from taskq_sync.client import TaskQ
from taskq_sync.errors import ConfigError
from taskq_sync.logs import FORMATS


def _texts(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


def _known(instance: object, attribute: object, value: str) -> None:
    if value not in FORMATS:
        raise ConfigError(f"log_format must be {' or '.join(FORMATS)}, it is {value!r}")


@frozen(kw_only=True)
class Application:
    """Where the `TaskQ` of a program is found, by this process and by the child processes that it spawns."""

    app: str | None = None
    """`module:attribute`, or `module` if it has just one."""

    imports: tuple[str, ...] = field(default=(), converter=_texts)
    """Modules with tasks, to be imported first. Without `app` the `TaskQ` is the one that they use."""

    log_level: str | None = None
    """What child processes log to stderr; None = what Python does by itself."""

    log_format: str = field(default="text", validator=_known)
    """In which form they do it: `text` or `json`."""

    def load(self) -> TaskQ:
        """Import the modules and return the `TaskQ`.

        Raises `ConfigError` if a module or attribute is missing, and if it is not clear which `TaskQ` is meant.
        What a module itself raises passes through.
        """
        return _find(self.app, self.imports)


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
    if not all(name.split(".")):
        raise ConfigError(f"{name!r} is no name of a module", hint="write it as in `import a.tasks`")
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
