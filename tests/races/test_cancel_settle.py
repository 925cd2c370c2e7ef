"""Cancel_job against settle: a request decides an attempt that ends after it, and finds the job that ended before."""

# Scenario B48.

from __future__ import annotations

import pytest

from races.sessions import VERBS, Session, ids, settlement

every_verb = pytest.mark.parametrize("verb", VERBS)


@every_verb
def test_settle_that_waited_for_a_cancel_obeys_it(verb: str, one: Session, two: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        assert one.cancel_job(job_id=attempt["job_id"])[0]["result"] == "requested"
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb=verb))

    [row] = answer.result()
    assert (row["result"], row["status"]) == ("ok", "succeeded" if verb == "complete" else "cancelled")


@every_verb
def test_settle_that_waited_for_a_cancel_that_rolled_back_knows_nothing_of_it(
    verb: str, one: Session, two: Session
) -> None:
    attempt = one.new_attempt()

    with one.transaction(rolls_back=True):
        one.cancel_job(job_id=attempt["job_id"])
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb=verb))

    landings = {"complete": "succeeded", "cancel": "cancelled"}
    assert answer.result()[0]["status"] == landings.get(verb, "queued")


@every_verb
def test_cancel_that_waited_for_a_settle_finds_where_the_job_went(
    verb: str, one: Session, two: Session
) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        settled = one.settle_one(attempt, verb)
        answer = two.waiting("cancel_job", behind=one, job_id=attempt["job_id"])

    [row] = answer.result()
    if settled["status"] == "queued":
        assert (row["result"], row["status"]) == ("cancelled", "cancelled")
    else:
        assert (row["result"], row["status"]) == ("already_ended", settled["status"])
    assert one.job(attempt["job_id"])["status"] == row["status"]


def test_cancel_that_waited_for_a_settle_that_rolled_back_is_a_request(one: Session, two: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction(rolls_back=True):
        one.settle_one(attempt, "complete")
        answer = two.waiting("cancel_job", behind=one, job_id=attempt["job_id"])

    assert answer.result()[0]["result"] == "requested"
    assert one.settle_one(attempt, "fail")["status"] == "cancelled"


def test_cancel_that_waited_for_a_take_back_ends_the_queued_job(one: Session, two: Session) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction():
        one.take_back()
        answer = two.waiting("cancel_job", behind=one, job_id=attempt["job_id"])

    assert answer.result()[0]["result"] == "cancelled"
    assert one.settle_one(attempt, "complete")["result"] == "lost"


def test_take_back_passes_over_a_job_whose_cancel_is_open_and_obeys_it_later(
    one: Session, impatient: Session
) -> None:
    attempt, other = one.new_attempt(), one.new_attempt()
    one.run_out(attempt["job_id"], other["job_id"])

    with one.transaction():
        one.cancel_job(job_id=attempt["job_id"])
        assert ids(impatient.take_back()) == [other["job_id"]]

    assert impatient.take_back()[0]["status"] == "cancelled"
    assert one.job(attempt["job_id"])["outcome"] == "cancelled_after_expiry"


def test_cancel_that_waited_for_a_batch_ends_no_other_job(one: Session, two: Session) -> None:
    attempts = [one.new_attempt() for _ in range(3)]

    with one.transaction():
        one.settle(**settlement(*attempts, verb="fail"))
        answer = two.waiting("cancel_job", behind=one, job_id=attempts[1]["job_id"])

    assert answer.result()[0]["result"] == "cancelled"
    statuses = [one.job(each["job_id"])["status"] for each in attempts]
    assert statuses == ["queued", "cancelled", "queued"]
