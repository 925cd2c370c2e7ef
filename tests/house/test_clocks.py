"""One clock: nothing in the package asks this machine what time it is."""

# Scenario B51.

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

#: What tells the wall clock's time, by the last two words of its name.
WALL_CLOCKS = {
    *(
        "time.time",
        "time.time_ns",
        "time.localtime",
        "time.gmtime",
        "time.ctime",
        "time.asctime",
        "time.strftime",
    ),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
}

#: `time.monotonic` stands still while a machine sleeps, and a lease does not: `clock.monotonic` is ours.
CLOCKS = {*WALL_CLOCKS, "time.monotonic", "time.monotonic_ns", "time.clock_gettime"}

#: Modules that have to do with no lease and no job, and what they use.
ALLOWED = {
    "clock": {"time.monotonic", "time.clock_gettime"},
    "embedded/lock": {"time.monotonic"},
    "embedded/server": {"time.monotonic"},
}


def calls_of(path: Path) -> Iterator[str]:
    """The functions that a module names with the module or class they are of."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"time.{each.name}" for each in node.names)


def test_the_package_has_one_clock_and_it_is_no_wall_clock(checkout: Path) -> None:
    root = checkout / "taskq_sync"
    found = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).with_suffix("").as_posix()
        used = CLOCKS & set(calls_of(path)) - ALLOWED.get(name, set())
        if used:
            found[name] = used
    assert found == {}
