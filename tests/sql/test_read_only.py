"""The read model changes nothing and locks nothing, so it can be asked of a read replica."""

from __future__ import annotations

import pytest

from kit.contract import Contract

CALLS = {
    "get_job": "get_job({job})",
    "job_history": "job_history({job})",
    "list_jobs": "list_jobs()",
    "queue_stats": "queue_stats()",
    "workers": "workers()",
    "schema_version": "schema_version()",
    "check_integrity": "check_integrity()",
    "poll_hint": "poll_hint(array['q'])",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_that_reads_runs_in_a_read_only_transaction(sql: Contract, name: str) -> None:
    """A standby refuses the same, and NOTIFY besides."""
    job = sql.new_attempt()["job_id"]
    sql.new_job()
    sql.announce(worker_id="w", info={})
    with sql.conn.transaction():
        sql.run("set transaction read only")
        found = sql.rows(f"select * from taskq.{CALLS[name].format(job=job)}")

    assert bool(found) == (name != "check_integrity")
