"""Cancel_job against calls that move the job more than once, or more than one job while it waits."""

# Scenario B48.

from __future__ import annotations

from races.sessions import Session, settlement


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


def test_cancel_that_waited_for_a_batch_ends_no_other_job(one: Session, two: Session) -> None:
    attempts = [one.new_attempt() for _ in range(3)]

    with one.transaction():
        one.settle(**settlement(*attempts, verb="fail"))
        answer = two.waiting("cancel_job", behind=one, job_id=attempts[1]["job_id"])

    assert answer.result()[0]["result"] == "cancelled"
    statuses = [one.job(each["job_id"])["status"] for each in attempts]
    assert statuses == ["queued", "cancelled", "queued"]
