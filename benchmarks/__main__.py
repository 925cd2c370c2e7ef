"""The command line: `python -m benchmarks NAME`."""

from __future__ import annotations

import click

from benchmarks import compare, everything
from benchmarks.idle import idle
from benchmarks.limits import limits
from benchmarks.memory import memory
from benchmarks.soak.command import soak


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure the queue. Every run is checked; exit code 1 if one was not right."""


for command in (*compare.commands(), idle, limits, memory, everything.command(), soak):
    main.add_command(command)


if __name__ == "__main__":
    main()
