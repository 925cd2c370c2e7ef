"""Roles whose settings are hostile: isolation levels, timeouts, asynchronous commits."""

from __future__ import annotations

import time

import psycopg
import pytest
from psycopg import IsolationLevel

from faults.lab import SLACK, Lab
from taskq_sync import TaskQ


def test_acknowledged_jobs_survive_a_crash_of_the_server(lab: Lab) -> None:
    # B12
    lab.asked_for |= {"57P01", "57P02", "57P03"}
    number = lab.count(200, short=60)
    with TaskQ(lab.dsn) as tq:
        nap = tq.task(queue="later", name="nap")(lambda: None)
        acknowledged = [nap.enqueue().job_id for _ in range(number)]
    settled = settle_some(lab, lab.dsn, acknowledged[: number // 4])
    with lab.server.down():
        pass
    lab.enqueued += acknowledged

    assert lab.outcomes(*settled) == [("succeeded", "success")] * len(settled)
    assert lab.sql.value("select count(*) from taskq.jobs where id = any (%s)", acknowledged) == number


def test_asynchronous_commit_loses_the_last_commits_only_and_never_a_fence(lab: Lab) -> None:
    # B12; what may be lost is said in docs/guarantees.md
    lab.asked_for |= {"57P01", "57P02", "57P03"}
    dsn = lab.role(synchronous_commit="off")
    jobs = lab.enqueue_many(8, "nap", queue="later")
    settled = settle_some(lab, dsn, jobs)
    fences = [lab.history(job)[0]["attempt_id"] for job in settled]
    with lab.server.down():
        pass

    lost = [job for job in settled if lab.job(job)["status"] == "running"]
    again = [row["attempt_id"] for row in lab.sql.claim(queues=["later"], worker_id="w", limit=10)]
    again += [lab.history(job)[-1]["attempt_id"] for job in lost]
    assert all(lab.job(job)["status"] in ("succeeded", "running") for job in settled)
    lab.sql.run("update taskq.running set lease_expires_at = taskq.clock() - interval '1 s'")
    lab.sql.take_back()
    new = [row["attempt_id"] for row in lab.sql.claim(queues=["later"], worker_id="w", limit=10)]
    assert not new or min(new) > max(fences + again)
    lab.may_be_unstarted = 100
    lab.without_ledger()


def settle_some(lab: Lab, dsn: str, jobs: list[int]) -> list[int]:
    """Claim and complete as many of these jobs as there are, by hand, and return them."""
    with psycopg.connect(dsn, autocommit=True, application_name="faults-hand") as conn:
        claimed = conn.execute(
            "select job_id, attempt_id from taskq.claim(array['later'], 'by hand', %s)", (len(jobs),)
        ).fetchall()
        for job_id, fence in claimed:
            [(result,)] = conn.execute(
                "select result from taskq.complete(%s, %s)", (job_id, fence)
            ).fetchall()
            assert result == "ok"
    lab.without_ledger()
    return [job_id for job_id, _ in claimed]


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_stricter_isolation_of_the_role_makes_no_errors(lab: Lab, level: str) -> None:
    # B37
    dsn = lab.role(default_transaction_isolation=level)
    for number in range(5):
        lab.sql.set_concurrency_limit(key=f"k{number}", max_running=2, actor="test", reason="test")
    number = lab.count(500, short=80)
    jobs = [
        lab.enqueue("stumble" if each % 10 == 0 else "nap", concurrency_key=f"k{each % 5}")
        for each in range(number)
    ]
    workers = [lab.worker(dsn=dsn) for _ in range(lab.count(4, short=2))]
    lab.wait_until_ended(*jobs, timeout=120)

    assert lab.outcomes(*jobs) == [("succeeded", "success")] * number
    assert [len(lab.starts(job)) for job in jobs[:20]] == [2 if each % 10 == 0 else 1 for each in range(20)]
    assert not any(worker.lines("40001|serialize|degraded") for worker in workers)


def test_serialization_failure_in_the_transaction_of_the_caller_is_the_callers(lab: Lab) -> None:
    # B37
    lab.asked_for |= {"40001"}
    lab.sql.run("create table counter (n int)")
    lab.sql.run("insert into counter values (0)")
    with TaskQ(lab.dsn) as tq, psycopg.connect(lab.dsn, application_name="faults-caller") as conn:
        nap = tq.task(queue="q", name="nap")(lambda: None)
        conn.isolation_level = IsolationLevel.SERIALIZABLE
        conn.execute("select n from counter")
        lab.sql.run("update counter set n = n + 1")
        nap.using(connection=conn).enqueue()
        with pytest.raises(psycopg.errors.SerializationFailure):
            conn.execute("update counter set n = n + 1")
        conn.rollback()
    assert lab.sql.value("select count(*) from taskq.jobs") == 0


def test_timeouts_of_the_role_end_no_loop(lab: Lab) -> None:
    # B78
    lab.asked_for |= {"57014", "55P03", "57P05", "25P03"}
    finished = lab.count(100_000, short=3000)
    lab.leave_old_jobs(finished)
    dsn = lab.role(
        statement_timeout="200ms",
        lock_timeout="50ms",
        idle_in_transaction_session_timeout="1s",
        idle_session_timeout=f"{lab.span(5, short=2)}s",
    )
    worker = lab.worker("--poll-interval", "20s", dsn=dsn)
    jobs = lab.enqueue_many(lab.count(2000, short=60), "nap")
    with psycopg.connect(lab.dsn, application_name="faults-locker") as locker:
        locker.execute("lock table taskq.jobs")
        time.sleep(lab.span(3, short=1.5))
    lab.wait_until_ended(*jobs, timeout=120)
    time.sleep(lab.span(60, short=3))  # idle, and the listener is ended again and again
    later = lab.enqueue("nap")
    lab.wait_until_ended(later, timeout=3 + SLACK)
    lab.until(
        lambda: lab.sql.value("select count(*) from taskq.finished where queue = 'old'") == 0,
        "the old jobs are deleted",
        timeout=150,
    )

    assert lab.outcomes(*jobs) == [("succeeded", "success")] * len(jobs)
    assert worker.code is None
