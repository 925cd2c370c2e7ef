"""Settle against a take_back that ends the job, is followed by a claim, or is about one job of a batch."""

from __future__ import annotations

from races.sessions import Session, settlement


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
