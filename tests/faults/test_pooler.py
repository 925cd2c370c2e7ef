"""Behind PgBouncer in transaction mode, and what LISTEN does to the server."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from faults.lab import SLACK, Lab
from faults.pooler import Pooler
from taskq_sync import TaskQ

_SESSION_LOCKS = """
select count(*) from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and a.state = 'idle' and l.database = (select oid from pg_database where datname = %s)
"""

_SETTINGS = """
select name, setting from pg_settings
where name in ('search_path', 'statement_timeout', 'lock_timeout', 'default_transaction_isolation', 'TimeZone',
               'transaction_isolation', 'synchronous_commit', 'idle_in_transaction_session_timeout')
"""


@pytest.fixture
def pooler(lab: Lab) -> Pooler:
    return lab.pooler()


def test_workers_and_clients_share_few_sessions_of_a_pooler(lab: Lab, pooler: Pooler) -> None:
    # B25, B26
    pooled = {"TASKQ_POOLED": "1"}
    workers = [lab.worker(dsn=pooler.dsn, env=pooled) for _ in range(lab.count(4, short=2))]
    with (
        psycopg.connect(pooler.dsn, autocommit=True, application_name="third-party") as third,
        TaskQ(pooler.dsn, pooled=True) as tq,
    ):
        before = third.execute(_SETTINGS).fetchall()
        nap = tq.task(queue="q", name="nap")(lambda: None)
        produced = [nap.enqueue().job_id for _ in range(lab.count(2000, short=60))]
        keyed = lab.enqueue_many(6, "nap", {"seconds": 0.1}, concurrency_key="k")
        seen = set()

        def ended() -> bool:
            seen.add(lab.sql.value(_SESSION_LOCKS, lab.sql.conn.info.dbname))
            return all(status == "succeeded" for status, _ in lab.outcomes(*produced, *keyed))

        lab.until(ended, "all jobs are run", timeout=60 + lab.span(300, short=0))
        assert third.execute(_SETTINGS).fetchall() == before
    lab.enqueued += produced

    assert seen == {0}
    assert not any(worker.lines("degraded|rror") for worker in workers)
    assert lab.sql.value("select count(*) from pg_stat_activity where application_name like 'taskq-%%'") <= 3


def test_wake_ups_behind_a_pooler_degrade_to_polling(lab: Lab, pooler: Pooler) -> None:
    # B26
    worker = lab.worker("--poll-interval", "1s", dsn=pooler.dsn, env={"TASKQ_POOLED": "1"})
    job = lab.enqueue("nap")
    lab.wait_until_ended(job, timeout=1 + SLACK)

    assert not worker.lines("listening for notifications")
    assert len(worker.lines("(?i)no notifications|poll")) <= 1


def test_direct_connection_beside_the_pooler_brings_the_wake_ups(lab: Lab, pooler: Pooler) -> None:
    # B26
    env = {"TASKQ_POOLED": "1", "TASKQ_LISTEN_DSN": lab.dsn}
    worker = lab.worker("--poll-interval", "60s", dsn=pooler.dsn, env=env)
    worker.wait_for("listening for notifications")
    job = lab.enqueue("nap")
    lab.wait_until_ended(job, timeout=SLACK)


def test_notifications_that_nobody_reads_do_not_pile_up(lab: Lab) -> None:
    # B29
    worker = lab.worker(queues="q")
    stop = threading.Event()

    def produce() -> None:
        with psycopg.connect(lab.dsn, autocommit=True, application_name="faults-producer") as conn:
            while not stop.wait(1 / 200):
                conn.execute("select taskq.enqueue('elsewhere', 'nap')")

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        time.sleep(lab.span(600, short=1.5))
        worker.suspend()
        time.sleep(lab.span(120, short=1.5))
        state = lab.sql.value(
            "select distinct state from pg_stat_activity where application_name like 'taskq-%%-listener'"
        )
    finally:
        stop.set()
        producer.join()
    worker.resume()
    usage = "select pg_notification_queue_usage()"
    lab.until(lambda: lab.sql.value(usage) == 0, "the queue of notifications is empty")

    assert state == "idle"
