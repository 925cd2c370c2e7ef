"""What a call costs, in buffers and not in time."""

from __future__ import annotations

from kit.contract import Contract

#: More calls than it takes until plpgsql considers a plan for any arguments.
WARM_UP = 6


def buffers(sql: Contract, call: str) -> int:
    """Run *call* and return how many buffers it touched, those of nested statements included."""
    [row] = sql.rows(f"explain (analyze, buffers, format json) select * from taskq.{call}")
    plan = row["QUERY PLAN"][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
