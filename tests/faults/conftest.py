"""Fixtures of the scenarios: the server, and the lab that each works in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.lab import Lab
from faults.ledger import Ledger
from faults.server import FaultServer
from kit.databases import Databases

#: 0 = as short as possible, 1 = as long as the scenarios say.
SCALE = "FAULTS_SCALE"

_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Remember whether the scenario itself has failed: then the checks at its end would tell nothing new."""
    report = yield
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        item.stash[_failed] = True
    return report


@pytest.fixture(scope="session")
def _fault_server() -> Iterator[FaultServer]:
    folder = Path(tempfile.mkdtemp(prefix="taskq-faults-"))
    if os.geteuid() == 0:
        folder.chmod(0o711)  # the account of root's server passes through
    server = FaultServer(folder / "server")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def fault_server(_fault_server: FaultServer) -> Iterator[FaultServer]:
    """A server of this process of the run, with its settings as they were."""
    _fault_server.start()
    yield _fault_server
    _fault_server.start()
    _fault_server.reset()


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, fault_server: FaultServer, databases: Databases, tmp_path: Path
) -> Iterator[Lab]:
    """A server, a ledger in another one, and what a scenario needs to set faults; checks everything at the end."""
    with fault_server.database() as dsn, databases.empty() as ledger_dsn:
        ledger = Ledger(ledger_dsn)
        made = Lab(fault_server, dsn, ledger, tmp_path, float(os.environ.get(SCALE, "0")))
        findings = []
        try:
            yield made
            if not request.node.stash.get(_failed, False):
                findings = made.check()
        finally:
            _show(request.node, made)
            made.close()
            ledger.close()
        assert not findings, "\n".join(findings)


def _show(item: pytest.Item, lab: Lab) -> None:
    """Put into the report what one wants to know of a scenario that has failed."""
    for process in lab.processes:
        item.add_report_section("teardown", process.log.name, "\n".join(process.text.splitlines()[-40:]))
    item.add_report_section("teardown", "jobs", "\n".join(lab.unsettled()))
