"""Which version is installed."""

from __future__ import annotations

import re

from kit.contract import Contract


def test_returns_version_and_min_client(sql: Contract) -> None:
    assert sql.columns("schema_version") == ["version", "min_client"]


def test_says_what_the_applier_has_written(sql: Contract) -> None:
    [row] = sql.schema_version()

    assert [row] == sql.rows("select version, min_client from taskq.settings")
    assert re.match(r"\d+\.\d+", row["version"])
    assert re.match(r"\d+\.\d+", row["min_client"])
