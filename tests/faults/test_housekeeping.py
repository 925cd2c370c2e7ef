"""Housekeeping by many at once, while the schema is replaced under them."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg

from faults.lab import Lab
from taskq_sync.db.schema import Schema

_OLD_LEFT = "select count(*) from taskq.finished where queue = 'old'"


def test_old_jobs_are_deleted_once_by_whoever_prunes(lab: Lab) -> None:
    # B38
    number = lab.count(50_000, short=8000)
    lab.leave_old_jobs(number)
    over = threading.Event()

    def prune() -> int:
        with psycopg.connect(lab.dsn, autocommit=True, application_name="faults-pruner") as conn:
            deleted = 0
            while not over.is_set():
                [(count,)] = conn.execute("select taskq.prune(200)").fetchall()
                deleted += int(count)
            return deleted

    def migrate() -> int:
        runs = 0
        with psycopg.connect(lab.dsn, autocommit=True, application_name="faults-migration") as conn:
            while not over.is_set():
                conn.execute("update taskq.settings set fingerprint = 'of an older release'")
                runs += Schema().migrate(conn).changed
        return runs

    workers = [lab.start_worker("--log-level", "debug") for _ in range(lab.count(5, short=3))]
    with ThreadPoolExecutor(4) as threads:
        pruners = [threads.submit(prune) for _ in range(3)]
        migration = threads.submit(migrate)
        try:
            lab.until(lambda: lab.sql.value(_OLD_LEFT) == 0, "the old jobs are deleted", timeout=120)
        finally:
            over.set()
    for worker in workers:
        worker.wait_until_ready()
        assert lab.stop(worker) == 0

    counts = [re.search(r"prune: (\d+)", line) for worker in workers for line in worker.lines("prune: ")]
    by_workers = sum(int(found[1]) for found in counts if found is not None)
    assert by_workers + sum(each.result() for each in pruners) == number
    assert migration.result() > 0
