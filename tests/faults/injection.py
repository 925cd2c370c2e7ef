"""Errors that nobody foresees, raised in the middle of a worker: for its own process only, by the environment.

`FAULTS_INJECT=claim:KeyError` lets the second call of `Jobs.claim` raise a KeyError; the first one of what comes once
a minute. `FAULTS_PATIENCE=2` shortens the time that a part of the worker waits for an error to pass that is none of
the link.
"""

from __future__ import annotations

import builtins
import itertools
import os
from typing import Any

from taskq_sync.db.jobs import Jobs
from taskq_sync.db.listen import Listener
from taskq_sync.worker import link

INJECT = "FAULTS_INJECT"
PATIENCE = "FAULTS_PATIENCE"

_ONCE_A_MINUTE = ("expire_ttl", "prune")


def prepare() -> None:
    """Do what the environment asks for."""
    if INJECT in os.environ:
        where, _, kind = os.environ[INJECT].partition(":")
        _inject(Listener if where == "wait" else Jobs, where, getattr(builtins, kind))
    if PATIENCE in os.environ:
        link.PATIENCE = float(os.environ[PATIENCE])


def _inject(owner: type, name: str, kind: type[BaseException]) -> None:
    shipped = getattr(owner, name)
    calls = itertools.count(1)
    broken = 1 if name in _ONCE_A_MINUTE else 2

    def raises_once(*args: Any, **options: Any) -> Any:
        if next(calls) == broken:
            raise kind(f"injected into {name}")
        return shipped(*args, **options)

    setattr(owner, name, raises_once)
