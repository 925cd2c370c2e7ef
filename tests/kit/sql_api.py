"""The module docs/sql_api.py, which belongs to no package: it reads the headers of the SQL functions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[2] / "docs" / "sql_api.py"
_spec = importlib.util.spec_from_file_location("sql_api", _path)
assert _spec is not None
assert _spec.loader is not None
sql_api = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sql_api)
