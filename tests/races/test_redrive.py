"""Redrive against enqueue, cancel, prune and another redrive: a job comes back once, and with its key or not at all."""

from __future__ import annotations

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row, refused
from races.sessions import Session

KEYED: Row = {"queue": "q", "task": "t", "unique_key": "k"}

pytestmark = pytest.mark.usefixtures("clocks")


def dead(session: Session, **options: object) -> int:
    """Make a job that has failed for good."""
    attempt = session.new_attempt(**options)
    session.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom", retryable=False)
    return int(attempt["job_id"])


@pytest.mark.parametrize("mode", ["keep", "replace"])
def test_an_enqueue_that_saw_the_ended_holder_finds_it_live(one: Session, two: Session, mode: str) -> None:
    """The time of its key is over, so the enqueue would have taken the key from an ended job."""
    job_id = dead(one, unique_key="k", unique_for="1 second")
    one.ahead(hours=1)
    two.ahead(hours=1)

    with one.transaction():
        assert one.redrive(job_id=job_id)[0]["result"] == "redriven"
        answer = two.waiting("enqueue", behind=one, **KEYED, unique_mode=mode)

    [row] = answer.result()
    assert row == {"status": "existed" if mode == "keep" else "replaced", "job_id": job_id}
    assert one.check_integrity() == []


def test_a_job_that_is_put_back_keeps_its_key_from_who_saw_it_ended(
    one: Session, two: Session, three: Session
) -> None:
    """Who saw that waits for another key, and the job comes back meanwhile."""
    dead(one, unique_key="a", unique_for="1 second")
    job_id = dead(one, unique_key="b", unique_for="1 second")
    one.ahead(hours=1)
    two.ahead(hours=1)

    with three.transaction():
        three.run("select from taskq.unique_keys where key = 'a' for update")
        jobs = Jsonb([{"task": "t", "unique_key": key} for key in "ab"])
        answer = two.waiting("enqueue_many", behind=three, queue="q", jobs=jobs)
        assert one.redrive(job_id=job_id)[0]["result"] == "redriven"

    first, second = answer.result()
    assert first["status"] == "created"
    assert second == {"ordinal": 1, "status": "existed", "job_id": job_id}
    assert one.check_integrity() == []


def test_who_redrives_a_job_whose_key_is_being_taken_does_not_wait(one: Session, impatient: Session) -> None:
    job_id = dead(one, unique_key="k", unique_for="1 second")
    one.ahead(hours=1)
    impatient.ahead(hours=1)

    with one.transaction(rolls_back=True):
        assert one.enqueue(**KEYED)[0]["status"] == "created"
        assert impatient.redrive(job_id=job_id)[0]["result"] == "key_taken"

    assert impatient.redrive(job_id=job_id)[0]["result"] == "redriven"
    assert one.enqueue(**KEYED) == [{"status": "existed", "job_id": job_id}]


def test_who_redrives_waits_for_an_enqueue_that_makes_the_key(one: Session, two: Session) -> None:
    job_id = dead(one, unique_key="k")

    with one.transaction():
        [holder] = one.enqueue(**KEYED)
        answer = two.waiting("redrive", behind=one, job_id=job_id)

    assert answer.result()[0]["result"] == "key_taken"
    assert one.enqueue(**KEYED) == [{"status": "existed", "job_id": holder["job_id"]}]


def test_only_one_of_two_jobs_of_a_key_is_put_back(one: Session, two: Session) -> None:
    first, second = dead(one, unique_key="k"), dead(one, unique_key="k")

    with one.transaction():
        assert one.redrive(job_id=first)[0]["result"] == "redriven"
        answer = two.waiting("redrive", behind=one, job_id=second)

    assert answer.result() == [{"job_id": second, "result": "key_taken", "status": "failed"}]


def test_a_second_redrive_finds_the_job_live(one: Session, two: Session) -> None:
    job_id = dead(one)

    with one.transaction():
        one.redrive(job_id=job_id)
        answer = two.waiting("redrive", behind=one, job_id=job_id)

    assert answer.result() == [{"job_id": job_id, "result": "already_live", "status": "queued"}]


def test_a_cancel_that_waited_for_a_redrive_ends_the_job(one: Session, two: Session) -> None:
    job_id = dead(one)

    with one.transaction():
        one.redrive(job_id=job_id)
        answer = two.waiting("cancel_job", behind=one, job_id=job_id)

    assert answer.result() == [{"job_id": job_id, "result": "cancelled", "status": "cancelled"}]


def test_retention_passes_over_a_job_that_is_being_put_back(one: Session, impatient: Session) -> None:
    job_id = dead(one, unique_key="k", unique_for="1 second")
    impatient.ahead(days=40)

    with one.transaction():
        assert one.redrive(job_id=job_id)[0]["result"] == "redriven"
        assert impatient.prune() == [{"prune": 0}]

    assert impatient.prune() == [{"prune": 0}]
    assert one.take()["job_id"] == job_id


def test_redrive_of_a_job_that_retention_deletes_says_that_it_is_gone(one: Session, two: Session) -> None:
    job_id = dead(one)
    one.ahead(days=40)

    with one.transaction():
        assert one.prune() == [{"prune": 1}]
        answer = two.waiting("redrive", behind=one, job_id=job_id)

    with refused("TQ001", "no job"):
        answer.result()
