"""`python -m benchmarks all`: those with two sides, one after the other, then those that have a shape of their own."""

from __future__ import annotations

from typing import Any

import click

from benchmarks import compare
from benchmarks.idle import idle
from benchmarks.limits import limits
from benchmarks.memory import JOBS, memory

#: Options of the others: as much as is bearable, and as little as shows that they work.
_LIMITS = {"jam": 1_000_000, "jobs": 20_000, "samples": 40}
_LIMITS_SMOKE = {"jam": 500, "jobs": 300, "samples": 1}
_IDLE: dict[str, Any] = {"seconds": 120.0, "samples": 20}
_IDLE_SMOKE: dict[str, Any] = {"seconds": 6.0, "samples": 1}
_MEMORY = {"samples": 5, "jobs": JOBS}
_MEMORY_SMOKE = {"samples": 1, "jobs": 3_000}


def command() -> click.Command:
    """Return the command."""
    names = list(compare.BENCHMARKS)
    two_sided = compare.command(
        "all", names, f"{', '.join(names)}, limits, idle and memory, one after the other."
    )

    def call(**options: Any) -> None:
        context = click.get_current_context()
        context.invoke(two_sided, **options)
        if options["only"]:
            return
        smoke = options["smoke"]
        shared = {"as_json": options["as_json"], "dsn": options["dsn"]}
        pairs = 1 if smoke else options["pairs"]
        context.invoke(limits, **shared, pairs=pairs, **(_LIMITS_SMOKE if smoke else _LIMITS))
        context.invoke(idle, **shared, **(_IDLE_SMOKE if smoke else _IDLE))
        context.invoke(memory, **shared, **(_MEMORY_SMOKE if smoke else _MEMORY))

    return click.Command("all", params=two_sided.params, callback=call, help=two_sided.help)
