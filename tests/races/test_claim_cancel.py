"""Claim against cancel_job: a cancel waits for the claim and acts where the job then stands."""

# Scenario B48.

from __future__ import annotations

from races.sessions import Session, beat, ids


def test_cancel_that_waited_for_a_claim_becomes_a_request(one: Session, two: Session) -> None:
    job_id = one.new_job()

    with one.transaction():
        attempt = one.take()
        answer = two.waiting("cancel_job", behind=one, job_id=job_id)

    assert answer.result() == [{"job_id": job_id, "result": "requested", "status": "running"}]
    assert one.heartbeat(**beat(attempt))[0]["cancel_requested"] is True


def test_cancel_that_waited_for_a_claim_that_rolled_back_ends_the_job(one: Session, two: Session) -> None:
    job_id = one.new_job()

    with one.transaction(rolls_back=True):
        one.take()
        answer = two.waiting("cancel_job", behind=one, job_id=job_id)

    assert answer.result() == [{"job_id": job_id, "result": "cancelled", "status": "cancelled"}]
    assert one.claim(queues=["q"], worker_id="w") == []


def test_claim_passes_over_a_job_that_is_being_cancelled(one: Session, impatient: Session) -> None:
    cancelled, other = one.new_job(), one.new_job()

    with one.transaction():
        one.cancel_job(job_id=cancelled)
        assert ids(impatient.claim(queues=["q"], worker_id="w", limit=10)) == [other]

    assert impatient.claim(queues=["q"], worker_id="w") == []
    assert one.job(cancelled)["status"] == "cancelled"


def test_job_whose_cancel_rolled_back_is_claimed(one: Session, impatient: Session) -> None:
    job_id = one.new_job()

    with one.transaction(rolls_back=True):
        one.cancel_job(job_id=job_id)
        assert impatient.claim(queues=["q"], worker_id="w") == []

    assert ids(impatient.claim(queues=["q"], worker_id="w")) == [job_id]


def test_cancel_finds_a_job_that_ran_and_came_back_while_it_waited(one: Session, two: Session) -> None:
    job_id = one.new_job()

    with one.transaction():
        one.settle_one(one.take(), "release")
        answer = two.waiting("cancel_job", behind=one, job_id=job_id)

    assert answer.result()[0]["result"] == "cancelled"
    assert one.job(job_id)["status"] == "cancelled"


def test_cancel_finds_a_job_that_ran_to_its_end_while_it_waited(one: Session, two: Session) -> None:
    job_id = one.new_job()

    with one.transaction():
        one.settle_one(one.take(), "complete")
        answer = two.waiting("cancel_job", behind=one, job_id=job_id)

    assert answer.result() == [{"job_id": job_id, "result": "already_ended", "status": "succeeded"}]


def test_cancel_finds_a_job_that_comes_back_between_two_of_its_looks(
    one: Session, two: Session, three: Session
) -> None:
    """It waits for the claim at the queued row, and before it looks for the running one, that is gone again."""
    job_id = one.new_job()

    with three.transaction():
        with one.transaction():
            attempt = one.take()
            answer = two.waiting("cancel_job", behind=one, job_id=job_id)
            # who waits for the table now is served before the cancel looks into it
            locked = three.waiting("run", behind=one, statement="lock table taskq.running in exclusive mode")
        locked.result()
        three.settle_one(attempt, "release")

    assert answer.result()[0]["result"] == "cancelled"
    assert one.job(job_id)["status"] == "cancelled"


def test_second_cancel_waits_for_the_first(one: Session, two: Session) -> None:
    job_id = one.new_job()

    with one.transaction():
        one.cancel_job(job_id=job_id)
        answer = two.waiting("cancel_job", behind=one, job_id=job_id)

    assert answer.result() == [{"job_id": job_id, "result": "already_ended", "status": "cancelled"}]
