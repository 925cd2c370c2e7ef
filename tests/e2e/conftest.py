"""The command line in a folder of its own, and the functions of the same database."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.command import CommandLine
from kit.contract import Connection, Contract


@pytest.fixture
def sql(conn: Connection) -> Contract:
    return Contract(conn)


@pytest.fixture
def taskq(request: pytest.FixtureRequest, tmp_path: Path, dsn: str) -> CommandLine:
    """With the program `APP` of the test's module, as `app:tq`."""
    (tmp_path / "app.py").write_text(request.module.APP)
    return CommandLine(tmp_path, dsn)
