"""Jobs on hold that somebody is about when their key has room again: none is left stuck."""

from __future__ import annotations

import pytest

from kit.contract import Row
from races.sessions import Session, claims


@pytest.fixture
def running(one: Session) -> Row:
    """The attempt that fills the key."""
    return one.new_attempt(concurrency_key="k")


@pytest.fixture
def held(running: Row, one: Session) -> list[int]:
    """Two jobs on hold, the better one first."""
    jobs = [one.new_job(concurrency_key="k"), one.new_job(concurrency_key="k")]
    assert claims(one) == []
    return jobs


def test_held_job_whose_cancel_rolls_back_comes_back(
    running: Row, held: list[int], one: Session, impatient: Session
) -> None:
    one.cancel_job(job_id=held[1])

    with one.transaction(rolls_back=True):
        one.cancel_job(job_id=held[0])
        impatient.settle_one(running, "complete")
        assert claims(impatient) == []

    assert claims(impatient) == held[:1]


def test_better_held_job_whose_cancel_rolls_back_runs_after_the_other(
    running: Row, held: list[int], one: Session, impatient: Session
) -> None:
    with one.transaction(rolls_back=True):
        one.cancel_job(job_id=held[0])
        impatient.settle_one(running, "complete")
        [taken] = impatient.claim(queues=["q"], worker_id="w")
        assert taken["job_id"] == held[1]

    assert claims(impatient) == []
    impatient.settle_one(taken, "complete")
    assert claims(impatient) == held[:1]


def test_all_held_jobs_locked_by_a_transaction_that_rolls_back_come_back(
    running: Row, held: list[int], one: Session, impatient: Session
) -> None:
    with one.transaction(rolls_back=True):
        for job_id in held:
            one.row_locked_by_hand("ready", job_id)
        impatient.settle_one(running, "complete")
        assert claims(impatient) == []
        assert claims(impatient) == []

    [taken] = impatient.claim(queues=["q"], worker_id="w")
    assert taken["job_id"] == held[0]
    impatient.settle_one(taken, "complete")
    assert claims(impatient) == held[1:]


def test_held_job_of_one_queue_locked_while_another_queue_has_room(
    running: Row, one: Session, impatient: Session
) -> None:
    locked, other = one.new_job(concurrency_key="k"), one.new_job(queue="other", concurrency_key="k")
    assert one.claim(queues=["q", "other"], worker_id="w", limit=10) == []

    with one.transaction(rolls_back=True):
        one.row_locked_by_hand("ready", locked)
        impatient.settle_one(running, "complete")
        [taken] = impatient.claim(queues=["q", "other"], worker_id="w", limit=10)
        assert taken["job_id"] == other

    assert claims(impatient) == []
    impatient.settle_one(taken, "complete")
    assert claims(impatient) == [locked]


def test_held_job_whose_cancel_commits_makes_way_for_the_next(
    running: Row, held: list[int], one: Session, impatient: Session
) -> None:
    with one.transaction():
        one.cancel_job(job_id=held[0])
        impatient.settle_one(running, "complete")

    assert claims(impatient) == held[1:]


@pytest.mark.usefixtures("clocks")
def test_held_job_whose_expiry_rolls_back_comes_back(running: Row, one: Session, two: Session) -> None:
    job_id = one.new_job(concurrency_key="k", ttl="1 min")
    assert claims(one) == []

    with two.transaction(rolls_back=True):
        two.ahead(hours=1)
        assert two.expire_ttl() == [{"expire_ttl": 1}]
        one.settle_one(running, "complete")
        assert claims(one) == []

    assert claims(one) == [job_id]
