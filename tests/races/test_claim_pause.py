"""Claim against pause_queue and resume_queue: nobody waits, and what was claimed before the pause runs on."""

from __future__ import annotations

from races.sessions import Session, ids


def claims(session: Session, *queues: str) -> list[int]:
    return ids(session.claim(queues=list(queues or ["q"]), worker_id="w", limit=10))


def test_claim_under_an_open_pause_is_served(one: Session, impatient: Session) -> None:
    first = one.new_job()

    with one.transaction():
        assert one.pause_queue(queue="q")[0]["result"] == "paused"
        assert claims(impatient) == [first]

    one.new_job()
    assert claims(impatient) == []


def test_pause_that_rolls_back_pauses_nothing(one: Session, impatient: Session) -> None:
    job_id = one.new_job()

    with one.transaction(rolls_back=True):
        one.pause_queue(queue="q")

    assert claims(impatient) == [job_id]


def test_pause_does_not_wait_for_an_open_claim_whose_jobs_run_on(one: Session, impatient: Session) -> None:
    job_id = one.new_job()

    with one.transaction():
        [attempt] = one.claim(queues=["q"], worker_id="w")
        assert impatient.pause_queue(queue="q")[0]["result"] == "paused"

    assert attempt["job_id"] == job_id
    assert impatient.settle_one(attempt, "complete")["result"] == "ok"


def test_job_whose_claim_rolled_back_stays_in_the_paused_queue(one: Session, impatient: Session) -> None:
    job_id = one.new_job()

    with one.transaction(rolls_back=True):
        assert claims(one) == [job_id]
        impatient.pause_queue(queue="q")

    assert claims(impatient) == []
    impatient.resume_queue(queue="q")
    assert claims(impatient) == [job_id]


def test_claim_under_an_open_resume_is_not_served(one: Session, impatient: Session) -> None:
    job_id, other = one.new_job(), one.new_job(queue="other")
    one.pause_queue(queue="q")

    with one.transaction():
        assert one.resume_queue(queue="q")[0]["result"] == "resumed"
        assert claims(impatient, "q", "other") == [other]

    assert claims(impatient) == [job_id]


def test_enqueue_and_settle_do_not_wait_for_an_open_pause(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        one.pause_queue(queue="q")
        assert impatient.enqueue(queue="q", task="t")[0]["status"] == "created"
        assert impatient.settle_one(attempt, "complete")["result"] == "ok"


def test_second_pause_waits_for_the_first(one: Session, two: Session) -> None:
    with one.transaction():
        one.pause_queue(queue="q")
        answer = two.waiting("pause_queue", behind=one, queue="q")

    assert answer.result() == [{"queue": "q", "result": "already_paused"}]


def test_resume_under_an_open_pause_comes_before_it(one: Session, impatient: Session) -> None:
    one.new_job()

    with one.transaction():
        one.pause_queue(queue="q")
        assert impatient.resume_queue(queue="q")[0]["result"] == "not_paused"

    assert claims(impatient) == []


def test_second_resume_waits_for_the_first(one: Session, two: Session) -> None:
    one.pause_queue(queue="q")

    with one.transaction():
        one.resume_queue(queue="q")
        answer = two.waiting("resume_queue", behind=one, queue="q")

    assert answer.result() == [{"queue": "q", "result": "not_paused"}]
