"""Two settles of one attempt: the first that locks the row ends it, the other learns how."""

from __future__ import annotations

import pytest

from races.sessions import VERBS, Session, settlement

every_verb = pytest.mark.parametrize("verb", VERBS)


@every_verb
@pytest.mark.parametrize("first", ["complete", "fail"])
def test_settle_that_waited_for_another_learns_what_it_did(
    first: str, verb: str, one: Session, two: Session
) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        settled = one.settle_one(attempt, first)
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb=verb))

    [row] = answer.result()
    assert row["result"] == ("already_settled" if verb == first else "settle_conflict")
    assert (row["status"], row["scheduled_at"]) == (settled["status"], settled["scheduled_at"])


@every_verb
def test_settle_that_waited_for_a_transaction_that_rolled_back_counts(
    verb: str, one: Session, two: Session
) -> None:
    attempt = one.new_attempt()

    with one.transaction(rolls_back=True):
        one.settle_one(attempt, "complete")
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb=verb))

    assert answer.result()[0]["result"] == ("retry_scheduled" if verb == "fail" else "ok")


def test_batches_of_the_same_jobs_in_opposite_order_both_end(
    one: Session, two: Session, three: Session
) -> None:
    """Locks are taken by id: with those of the documents, each batch would hold what the other waits for."""
    attempts = [one.new_attempt() for _ in range(10)]

    with three.transaction(rolls_back=True):
        three.row_locked_by_hand("running", attempts[5]["job_id"])
        first = one.waiting("settle", behind=three, **settlement(*attempts, verb="complete"))
        second = two.waiting("settle", behind=one, **settlement(*reversed(attempts), verb="complete"))

    assert [row["result"] for row in first.result()] == ["ok"] * 10
    assert [row["result"] for row in second.result()] == ["already_settled"] * 10


def test_attempt_state_waits_for_the_commit_in_flight(one: Session, two: Session) -> None:
    attempt = one.new_attempt()
    fence = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}

    with one.transaction(rolls_back=True):
        one.settle_one(attempt, "complete")
        undone = two.waiting("attempt_state", behind=one, **fence)
    assert undone.result() == [{"state": "running", "status": "running"}]

    with one.transaction():
        one.settle_one(attempt, "complete")
        done = two.waiting("attempt_state", behind=one, **fence)
    assert done.result() == [{"state": "settled", "status": "succeeded"}]
