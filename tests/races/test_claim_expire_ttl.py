"""Expire_ttl against claim and cancel_job: a job ends or runs, whichever locked its row first."""

from __future__ import annotations

import pytest

from races.sessions import Session, ids

pytestmark = pytest.mark.usefixtures("clocks")


def claims(session: Session) -> list[int]:
    return ids(session.claim(queues=["q"], worker_id="w", limit=10))


@pytest.fixture
def short(one: Session) -> int:
    """A job that lives for a minute unless it is started."""
    return one.new_job(ttl="1 min")


def test_expiry_passes_over_a_job_that_is_being_claimed(short: int, one: Session, impatient: Session) -> None:
    other = one.new_job(ttl="2 min", delay="1 s")
    impatient.ahead(hours=1)

    with one.transaction():
        assert claims(one) == [short]
        assert impatient.expire_ttl() == [{"expire_ttl": 1}]

    assert impatient.expire_ttl() == [{"expire_ttl": 0}]
    assert [one.job(each)["status"] for each in (short, other)] == ["running", "cancelled"]


def test_job_whose_claim_rolled_back_expires(short: int, one: Session, impatient: Session) -> None:
    impatient.ahead(hours=1)

    with one.transaction(rolls_back=True):
        assert claims(one) == [short]
        assert impatient.expire_ttl() == [{"expire_ttl": 0}]

    assert impatient.expire_ttl() == [{"expire_ttl": 1}]
    assert one.job(short)["outcome"] == "expired_ttl"


def test_claim_passes_over_a_job_that_is_expiring(short: int, one: Session, impatient: Session) -> None:
    other = impatient.new_job()
    one.ahead(hours=1)

    with one.transaction():
        assert one.expire_ttl() == [{"expire_ttl": 1}]
        assert claims(impatient) == [other]

    assert claims(impatient) == []
    assert one.job(short)["status"] == "cancelled"


def test_job_whose_expiry_rolled_back_is_claimed(short: int, one: Session, impatient: Session) -> None:
    one.ahead(hours=1)

    with one.transaction(rolls_back=True):
        one.expire_ttl()
        assert claims(impatient) == []

    assert claims(impatient) == [short]


def test_cancel_that_waited_for_an_expiry_finds_the_ended_job(short: int, one: Session, two: Session) -> None:
    one.ahead(hours=1)

    with one.transaction():
        one.expire_ttl()
        answer = two.waiting("cancel_job", behind=one, job_id=short)

    assert answer.result() == [{"job_id": short, "result": "already_ended", "status": "cancelled"}]
    assert one.job(short)["outcome"] == "expired_ttl"


def test_expiry_passes_over_a_job_that_is_being_cancelled(
    short: int, one: Session, impatient: Session
) -> None:
    impatient.ahead(hours=1)

    with one.transaction():
        one.cancel_job(job_id=short)
        assert impatient.expire_ttl() == [{"expire_ttl": 0}]

    assert impatient.expire_ttl() == [{"expire_ttl": 0}]
    assert one.job(short)["outcome"] == "cancelled"


def test_expiry_passes_over_a_job_on_its_way_back_to_the_queue(
    short: int, one: Session, impatient: Session
) -> None:
    attempt = one.take()
    impatient.ahead(hours=1)

    with one.transaction():
        one.settle_one(attempt, "release")
        assert impatient.expire_ttl() == [{"expire_ttl": 0}]

    assert impatient.expire_ttl() == [{"expire_ttl": 1}]
