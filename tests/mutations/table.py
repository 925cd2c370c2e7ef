"""All deliberate faults, and the table of docs/reliability.md that is made of them."""

from __future__ import annotations

from mutations.in_python import IN_PYTHON
from mutations.in_sql import IN_SQL

MUTATIONS = [*IN_SQL, *IN_PYTHON]


def as_markdown() -> str:
    """Return the rows as they stand in the page."""
    rows = ["| fault | in | caught by |", "|---|---|---|"]
    for each in MUTATIONS:
        file = each.file.rpartition("/")[2]
        test = each.caught_by.removeprefix("tests/")
        rows.append(f"| `{each.name}`: {each.says} | `{file}` | `{test}` |")
    return "\n".join(rows) + "\n"
