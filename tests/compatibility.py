"""Run the tests of the contract under every kind of database: `python -m tests.compatibility`.

    python -m tests.compatibility                                  all flavours on all servers, some minutes each
    python -m tests.compatibility --flavours quoted,icu --servers embedded tests/worker

Flavours are those of `kit/flavours.py`, servers are values of `TASKQ_TEST_BACKEND`. Prints a line for each pair
with the totals of pytest, and what failed. The exit code is 1 if anything has.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

_TESTS = Path(__file__).parent
sys.path.insert(0, str(_TESTS))  # as pytest does, for `kit`

from kit.flavours import FLAVOURS  # noqa: E402  # found by the line above

#: What speaks to the database in the words of the schema, and hence in those of a flavour.
FOLDERS = ["tests/sql", "tests/races", "tests/client", "tests/worker"]

_TOTALS = re.compile(r"^(?:=+ )?(\d+ (?:passed|failed|skipped|error).* in [\d.]+s.*?)(?: =+)?$", re.MULTILINE)
#: The tests that failed, and what pytest says of each.
_WRONG = re.compile(r"^(?:(?:FAILED|ERROR) |E  ).*$", re.MULTILINE)


def run(server: str, flavour: str, paths: list[str], processes: str) -> bool:
    """Run the tests under one flavour on one server, and say how it went; return whether it went well."""
    if FLAVOURS[flavour].needs_icu and server == "embedded":
        print(f"{server:12} {flavour:12}         left out: this server has no ICU", flush=True)
        return True
    env = {**os.environ, "TASKQ_TEST_BACKEND": server, "TASKQ_TEST_FLAVOUR": flavour}
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, *paths]
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=_TESTS.parent,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    totals = _TOTALS.findall(done.stdout) or [f"exit code {done.returncode}: {done.stdout[-300:]}"]
    print(f"{server:12} {flavour:12} {time.monotonic() - began:4.0f} s  {totals[-1]}", flush=True)
    for line in _WRONG.findall(done.stdout):
        print(f"    {line}", flush=True)
    return done.returncode == 0


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.compatibility", description=(__doc__ or "").partition(".")[0]
    )
    parser.add_argument("--flavours", default=",".join(FLAVOURS), help="names, with commas between them")
    parser.add_argument("--servers", default="embedded,postgres15", help="backends, with commas between them")
    parser.add_argument("--processes", default="2", help="how many tests run at a time")
    parser.add_argument("paths", nargs="*", default=FOLDERS, help="files and folders of tests")
    given = parser.parse_args()
    pairs = [
        (server, flavour) for server in given.servers.split(",") for flavour in given.flavours.split(",")
    ]
    went_well = [run(server, flavour, given.paths, given.processes) for server, flavour in pairs]
    return 0 if all(went_well) else 1


if __name__ == "__main__":
    sys.exit(main())
