"""The proof that every job stands in exactly one place. Every other test ends with it."""

from __future__ import annotations

import pytest

from kit.contract import Contract


def test_returns_job_and_problem(sql: Contract) -> None:
    assert sql.columns("check_integrity") == ["job_id", "problem"]


def test_finds_nothing_in_jobs_at_every_place(sql: Contract) -> None:
    done, again = sql.new_attempt(unique_key="a"), sql.new_attempt(unique_key="b")
    sql.complete(job_id=done["job_id"], attempt_id=done["attempt_id"])
    sql.release(job_id=again["job_id"], attempt_id=again["attempt_id"])
    sql.new_attempt(queue="r", unique_key="c", concurrency_key="k")
    sql.new_job(queue="r", concurrency_key="k")
    assert sql.claim(queues=["r"], worker_id="w") == []

    assert sql.check_integrity() == []


def test_a_running_job_may_have_given_its_key_to_a_follower_that_has_ended(sql: Contract) -> None:
    sql.new_attempt(unique_key="k", unique_scope="waiting")
    sql.cancel_job(job_id=sql.new_job(unique_key="k", unique_scope="waiting"))

    assert sql.check_integrity() == []


PLACED = "id, queue, task, priority, scheduled_at, attempt_count, failure_count, expiry_streak, snooze_count, progress"
FAULTS = {
    "a job in no place": ("delete from taskq.ready where id = {waiting}", "waiting", "stands in no place"),
    "a job in two places": (
        f"insert into taskq.ready ({PLACED}) select {PLACED} from taskq.running where id = {{running}}",
        "running",
        "stands in several places: ready, running",
    ),
    "a job in two other places": (
        f"insert into taskq.ready ({PLACED}) select {PLACED} from taskq.finished where id = {{done}}",
        "done",
        "stands in several places: finished, ready",
    ),
    "a place without a request": (
        "delete from taskq.jobs where id = {running}",
        "running",
        "stands in running without a request in jobs",
    ),
    "a key whose job has ended": (
        "insert into taskq.unique_keys (queue, key, job_id) values ('q', 'lost', {done})",
        "done",
        'holds unique key "lost" of queue "q" but is not live',
    ),
    "a key whose job does not know": (
        "insert into taskq.unique_keys (queue, key, job_id) values ('q', 'lost', {waiting})",
        "waiting",
        'holds unique key "lost" of queue "q" but is not live',
    ),
    "a unique job without its key": (
        "update taskq.ready set is_unique = true where id = {waiting}",
        "waiting",
        "is marked unique but holds no key",
    ),
    "a unique job that runs without its key": (
        "update taskq.running set is_unique = true where id = {running}",
        "running",
        "is marked unique but holds no key",
    ),
    "an attempt without a job": (
        "insert into taskq.attempts (job_id, attempt_id, worker_id, claimed_at, ended_at, verb, status) "
        "values (999999999, 7, 'w', now(), now(), 'fail', 'queued')",
        "nobody",
        "attempt 7 belongs to no job",
    ),
    "an attempt twice": (
        "insert into taskq.attempts (job_id, attempt_id, worker_id, claimed_at, ended_at, verb, status) "
        "select id, attempt_id, worker_id, claimed_at, finished_at, verb, status from taskq.finished "
        "where id = {done}",
        "done",
        " is recorded 2 times",
    ),
    "a held job without a key": (
        "update taskq.ready set hold = 'key' where id = {waiting}",
        "waiting",
        "is held for a key but has none",
    ),
}


@pytest.mark.broken_integrity
@pytest.mark.parametrize("fault", FAULTS)
def test_finds(sql: Contract, fault: str) -> None:
    """Each fault is found at its job, with its problem and no other."""
    done, running = sql.new_attempt(), sql.new_attempt()
    sql.complete(job_id=done["job_id"], attempt_id=done["attempt_id"])
    jobs = {
        "done": done["job_id"],
        "running": running["job_id"],
        "waiting": sql.new_job(),
        "nobody": 999_999_999,
    }
    statement, job, problem = FAULTS[fault]
    sql.run(statement.format(**jobs))

    [finding] = sql.check_integrity()
    assert finding["job_id"] == jobs[job]
    assert problem in finding["problem"]
