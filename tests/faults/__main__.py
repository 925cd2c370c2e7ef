"""Run the scenarios by hand, again and again: `python -m tests.faults --repeat 10 [--only B13] [--scale 1.0]`.

With `--processes 4` the runs are shared among so many processes, each with a server of its own.

Prints a line for each scenario and run, and a last line with the totals. The exit code is 1 if one has failed.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

_NUMBERS = re.compile(r"# (B\d+(?:, B\d+)*)")
_TOTALS = re.compile(
    r"(?P<scenarios>\d+) scenarios, .*: (?P<passed>\d+) passed, (?P<failed>\d+) failed, (?P<skipped>\d+) skipped, "
    r"(?P<left>\d+) not run"
)
_SCALE = "FAULTS_SCALE"  # as in conftest.py, which is not importable before pytest runs


def numbers_of(item: pytest.Item) -> list[str]:
    """Return the numbers of the scenarios that a test is about, from its first comment."""
    found = _NUMBERS.search(inspect.getsource(item.function)) if isinstance(item, pytest.Function) else None
    return found[1].split(", ") if found is not None else []


class Runs:
    """A plugin of pytest: repeats, chooses, reports, and stops when the time is over."""

    def __init__(self, repeat: int, only: frozenset[str], until: float) -> None:
        self._repeat = repeat
        self._only = only
        self._until = until
        self._details: list[str] = []
        self._said: dict[str, tuple[str, float, str]] = {}
        self._names: dict[str, tuple[int, str]] = {}
        self.totals: Counter[str] = Counter()
        self.scenarios: set[str] = set()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Have every test once for each run."""
        metafunc.fixturenames.append("run")
        metafunc.parametrize("run", range(1, self._repeat + 1))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen ones, run by run."""
        kept = []
        for item in items:
            numbers = numbers_of(item)
            if numbers and (not self._only or self._only & set(numbers)):
                assert isinstance(item, pytest.Function)
                run = item.callspec.params["run"]
                assert isinstance(run, int)
                self._names[item.nodeid] = (run, ", ".join(numbers))
                self.scenarios |= set(numbers)
                kept.append(item)
        items[:] = sorted(kept, key=lambda item: self._names[item.nodeid][0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the three phases of a test, and report it after the last."""
        outcome, seconds, why = self._said.get(report.nodeid, ("passed", 0.0, ""))
        if report.failed and outcome != "failed":
            outcome, why = "failed", self._why(report)
        elif report.skipped:
            outcome, why = "skipped", self._why(report)
        self._said[report.nodeid] = (outcome, seconds + report.duration, why)
        if report.when == "teardown":
            self._say(report.nodeid)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin nothing when the time is over."""
        if time.monotonic() > self._until:
            self.totals["not run"] += 1
            pytest.exit("the time is over", returncode=1)

    def details(self) -> str:
        """Everything about what has failed."""
        return "\n".join(self._details)

    def _why(self, report: pytest.TestReport) -> str:
        if report.failed:
            logs = "\n".join(f"--- {title}\n{text}" for title, text in report.sections)
            self._details.append(f"=== {report.nodeid}\n{report.longreprtext}\n{logs}")
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
        return next(iter(text.splitlines()), "")

    def _say(self, nodeid: str) -> None:
        outcome, seconds, why = self._said.pop(nodeid)
        run, numbers = self._names[nodeid]
        self.totals[outcome] += 1
        name = re.sub(r"\[\d+-?", "[", nodeid.partition("::")[2]).removesuffix("[]")
        line = f"run {run:2}  {numbers:8}  {outcome:7} {seconds:6.1f} s  {name}"
        print(f"{line}  {why}" if why else line, flush=True)


def run_together(given: argparse.Namespace) -> tuple[Counter[str], int]:
    """Share the runs among processes; return the totals, and how many scenarios there are."""
    shares = [
        given.repeat // given.processes + (n < given.repeat % given.processes) for n in range(given.processes)
    ]
    same = [f"--only={given.only}", f"--scale={given.scale}", f"--minutes={given.minutes}"]
    began = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults", f"--repeat={share}", *same],
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in shares
        if share
    ]
    with ThreadPoolExecutor(len(began)) as pool:
        last = list(pool.map(pass_on, began))
    found = [_TOTALS.match(line) for line in last]
    if None in found:
        raise SystemExit("a process ended before it had told its totals")
    totals: Counter[str] = Counter()
    for each in found:
        assert each is not None
        totals.update(
            {name: int(each[name]) for name in ("passed", "failed", "skipped")}
            | {"not run": int(each["left"])}
        )
    return totals, max(int(each["scenarios"]) for each in found if each is not None)


def pass_on(process: subprocess.Popen[str]) -> str:
    """Print what *process* says but for its last line, and return that."""
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        if last:
            print(last, end="", flush=True)
        last = line
    process.wait()
    return last


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--repeat", type=int, default=1, help="how often each scenario is run")
    parser.add_argument("--only", default="", help="numbers of scenarios: B13,B14")
    parser.add_argument(
        "--scale", type=float, default=0.0, help="0 = as short as possible, 1 = as they are written"
    )
    parser.add_argument("--processes", type=int, default=1, help="how many runs go on at a time")
    parser.add_argument("--minutes", type=float, default=120.0, help="begin nothing after so many")
    given = parser.parse_args()
    os.environ[_SCALE] = str(given.scale)
    began = time.monotonic()
    if given.processes > 1:
        return report(*run_together(given), given, began)
    runs = Runs(given.repeat, frozenset(given.only.split(",")) - {""}, began + 60 * given.minutes)
    here = Path(__file__).parent
    plugins = [
        word for name in ("terminal", "xdist", "randomly", "cacheprovider") for word in ("-p", f"no:{name}")
    ]
    options = [*plugins, "-o", "addopts=", "--import-mode=importlib", "--rootdir", str(here.parents[1])]
    pytest.main([*options, str(here)], plugins=[runs])
    if runs.totals["failed"]:
        print(runs.details(), file=sys.stderr)
    return report(runs.totals, len(runs.scenarios), given, began)


def report(totals: Counter[str], scenarios: int, given: argparse.Namespace, began: float) -> int:
    """Print the last line and return the exit code."""
    counts = ", ".join(f"{totals[each]} {each}" for each in ("passed", "failed", "skipped", "not run"))
    seconds = time.monotonic() - began
    print(f"{scenarios} scenarios, {given.repeat} runs at scale {given.scale:g}: {counts}; {seconds:.0f} s")
    return 0 if totals["passed"] and not totals["failed"] and not totals["not run"] else 1


if __name__ == "__main__":
    sys.exit(main())
