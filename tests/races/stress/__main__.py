"""Run by hand; see the package."""

from __future__ import annotations

import argparse
import random
import sys

from . import __doc__ as _description
from .caller import Mix
from .run import Stress


def main(arguments: list[str] | None = None) -> int:
    """Run by hand and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.races.stress", description=str(_description).splitlines()[0]
    )
    parser.add_argument("--dsn", required=True, help="of an empty database with the schema installed")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--seed", type=int, default=None, help="a random one unless given")
    parser.add_argument("--calls", type=int, default=100_000, help="the most that one session makes")
    parser.add_argument("--live", type=int, default=300, help="about as many jobs live at once")
    parser.add_argument("--rows", type=int, default=15, help="the most jobs of one enqueue_many")
    parser.add_argument("--unique", type=float, default=0.3, help="of 1: how many jobs have a unique key")
    chosen = parser.parse_args(arguments)
    seed = random.randrange(10**6) if chosen.seed is None else chosen.seed
    report = Stress(
        chosen.dsn,
        seconds=chosen.seconds,
        sessions=chosen.sessions,
        seed=seed,
        calls=chosen.calls,
        mix=Mix(live=chosen.live, rows=chosen.rows, unique=chosen.unique),
    ).run()
    sys.stdout.write(f"{report}\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
