"""Settle against take_back: whoever locks the running row first ends the attempt."""

from __future__ import annotations

import pytest

from races.sessions import VERBS, Session, ids, settlement

every_verb = pytest.mark.parametrize("verb", VERBS)


@every_verb
def test_take_back_passes_over_a_job_that_is_being_settled(
    verb: str, one: Session, impatient: Session
) -> None:
    attempt, other = one.new_attempt(), one.new_attempt()
    one.run_out(attempt["job_id"], other["job_id"])

    with one.transaction():
        settled = one.settle_one(attempt, verb)
        assert ids(impatient.take_back()) == [other["job_id"]]

    assert impatient.take_back() == []
    assert settled["result"] in ("ok", "retry_scheduled")
    assert [row["verb"] for row in one.job_history(job_id=attempt["job_id"])] == [verb]


@every_verb
def test_settle_that_waited_for_a_take_back_is_lost(verb: str, one: Session, two: Session) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction():
        assert ids(one.take_back()) == [attempt["job_id"]]
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb=verb))

    [row] = answer.result()
    assert (row["result"], row["status"], row["scheduled_at"]) == ("lost", None, None)
    job = one.job(attempt["job_id"])
    assert (job["status"], job["failure_count"], job["expiry_streak"]) == ("queued", 1, 1)


@every_verb
def test_settle_that_waited_for_a_take_back_that_rolled_back_counts(
    verb: str, one: Session, two: Session
) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction(rolls_back=True):
        one.take_back()
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb=verb))

    assert answer.result()[0]["result"] == ("retry_scheduled" if verb == "fail" else "ok")
    assert one.take_back() == []


def test_settle_finds_the_final_take_back_it_waited_for(one: Session, two: Session) -> None:
    attempt = one.new_attempt(max_attempts=1)
    one.run_out(attempt["job_id"])

    with one.transaction():
        one.take_back()
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb="complete"))

    assert answer.result()[0]["result"] == "lost"
    assert one.job(attempt["job_id"])["outcome"] == "retry_exhausted"


def test_settle_that_waited_is_lost_when_the_job_runs_again(one: Session, two: Session) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction():
        one.take_back()
        again = one.take()
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb="complete"))

    assert answer.result()[0]["result"] == "lost"
    assert one.job(attempt["job_id"])["current_attempt_id"] == again["attempt_id"]
    assert one.settle_one(again, "complete")["result"] == "ok"


def test_batch_that_waited_for_one_job_settles_the_others(one: Session, two: Session) -> None:
    attempts = [one.new_attempt() for _ in range(3)]
    one.run_out(attempts[1]["job_id"])

    with one.transaction():
        one.take_back()
        answer = two.waiting("settle", behind=one, **settlement(*attempts, verb="complete"))

    assert [row["result"] for row in answer.result()] == ["ok", "lost", "ok"]


def test_second_take_back_returns_nothing_while_the_first_is_open(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction(rolls_back=True):
        assert ids(one.take_back()) == [attempt["job_id"]]
        assert impatient.take_back() == []

    assert ids(impatient.take_back()) == [attempt["job_id"]]
