"""Make one fault after the other, each alone, and see that a test fails: `python -m tests.mutations [NAME...]`.

Everything happens in a copy of the tree in a temporary folder, which is what the tests run: nothing of the checkout
is changed. First the tests that are to notice the faults must pass without any. Prints a line for each fault: what
has caught it, or SURVIVED. The exit code is 1 if one has survived, or the table no longer fits the code.

`--table` prints the table of docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(_TESTS))  # as pytest does, for `mutations` and `kit`

from kit.servers import Run  # noqa: E402  # found by the line above
from mutations.mutation import Mutation  # noqa: E402
from mutations.table import MUTATIONS, as_markdown  # noqa: E402

#: Seconds for the tests of one fault. A test waits 30 s at most for what never comes, and `-x` ends at the first.
PATIENCE = 240.0

_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Copy:
    """A copy of the tree in *folder*, and the tests in it."""

    def __init__(self, folder: Path, server: str) -> None:
        self.root = folder / "copy"
        shutil.copytree(_TESTS.parent, self.root, ignore=_NOT_COPIED)
        # Where the checkout is installed this package is at another place, which must not be the one that is found.
        (self.root / "taskq_sync" / "_sql").symlink_to(self.root / "sql")
        self._env = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",  # a fault may be as long as what it replaces, and as old
            "TASKQ_TEST_DSN": server,
        }
        self._env.pop("TASKQ_TEST_RUN_FOLDER", None)
        self._see_that_it_is_what_runs()

    def first_failure(self, selection: list[str]) -> str | None:
        """Return the first test of *selection* that fails, None if all pass."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *selection],
            cwd=self.root,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode == 0:
            return None
        found = _FAILED.search(done.stdout)
        if found is None:  # nothing was collected, or the copy cannot even be imported: that catches nothing
            raise RuntimeError(f"pytest {selection} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return found[1]

    def _see_that_it_is_what_runs(self) -> None:
        asked = "import taskq_sync, taskq_sync._sql as s; print(taskq_sync.__file__); print(s.__file__)"
        command = [sys.executable, "-c", asked]
        places = subprocess.run(
            command, cwd=self.root, env=self._env, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for place in places:
            if not Path(place).resolve().is_relative_to(self.root.resolve()):
                raise RuntimeError(f"the tests would run {place}, which is not the copy")


def try_one(copy: Copy, mutation: Mutation) -> bool:
    """Make one fault, say who has caught it, take it back; return whether anybody has."""
    if mutation.places(copy.root) != 1:
        print(
            f"{mutation.name:32} DOES NOT FIT: {mutation.file} has its text {mutation.places(copy.root)} times"
        )
        return False
    began = time.monotonic()
    before = mutation.apply(copy.root)
    try:
        caught_by = copy.first_failure([mutation.caught_by])
    except subprocess.TimeoutExpired:
        caught_by = None
    finally:
        (copy.root / mutation.file).write_text(before, encoding="utf-8")
    said = "SURVIVED" if caught_by is None else f"caught by {caught_by}"
    print(f"{mutation.name:32} {time.monotonic() - began:5.1f} s  {said}", flush=True)
    return caught_by is not None


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations", description=(__doc__ or "").partition(":")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--table", action="store_true", help="print the table for the documentation")
    given = parser.parse_args()
    if given.table:
        print(as_markdown(), end="")
        return 0
    unknown = set(given.names) - {each.name for each in MUTATIONS}
    if unknown:
        parser.error(f"no fault is called {', '.join(sorted(unknown))}")
    chosen = [each for each in MUTATIONS if not given.names or each.name in given.names]
    run = Run()
    try:
        with tempfile.TemporaryDirectory(prefix="taskq-mutations-") as folder:
            copy = Copy(Path(folder), run.dsn())
            failed = copy.first_failure(sorted({each.caught_by for each in chosen}))
            if failed is not None:
                print(f"without any fault {failed} fails")
                return 1
            caught = [try_one(copy, each) for each in chosen]
    finally:
        run.close()
    print(f"{sum(caught)} of {len(caught)} caught")
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
