"""Unique keys of scope `waiting`: the start of their job against the follower that asks for the key."""

from __future__ import annotations

import pytest

from kit.contract import Row
from races.sessions import VERBS, Session

KEYED: Row = {"queue": "q", "task": "t", "unique_key": "k", "unique_scope": "waiting"}


def test_a_job_is_not_started_while_a_caller_that_counts_on_it_stays_open(
    one: Session, impatient: Session
) -> None:
    """What the caller has written must be there when the job reads it."""
    holder = one.new_job(unique_key="k", unique_scope="waiting")

    with one.transaction():
        assert one.enqueue(**KEYED) == [{"status": "existed", "job_id": holder}]
        assert impatient.claim(queues=["q"], worker_id="w") == []
        assert impatient.poll_hint(queues=["q"])[0]["state"] == "ready"

    assert impatient.take()["job_id"] == holder


def test_a_caller_that_waited_for_the_start_makes_a_follower(one: Session, two: Session) -> None:
    holder = one.new_job(unique_key="k", unique_scope="waiting")

    with one.transaction():
        one.take()
        answer = two.waiting("enqueue", behind=one, **KEYED)

    [row] = answer.result()
    assert (row["status"], row["job_id"] > holder) == ("created", True)


def test_a_caller_that_waited_for_a_start_that_rolled_back_finds_the_holder(
    one: Session, two: Session
) -> None:
    holder = one.new_job(unique_key="k", unique_scope="waiting")

    with one.transaction(rolls_back=True):
        one.take()
        answer = two.waiting("enqueue", behind=one, **KEYED)

    assert answer.result() == [{"status": "existed", "job_id": holder}]


def test_a_caller_that_waited_for_a_cancel_makes_a_job(one: Session, two: Session) -> None:
    holder = one.new_job(unique_key="k", unique_scope="waiting")

    with one.transaction():
        one.cancel_job(job_id=holder)
        answer = two.waiting("enqueue", behind=one, **KEYED)

    assert answer.result()[0]["status"] == "created"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("rolls_back", [False, True])
def test_the_end_of_an_attempt_does_not_wait_for_a_follower_that_stays_open(
    verb: str, rolls_back: bool, one: Session, impatient: Session
) -> None:
    attempt = one.new_attempt(unique_key="k", unique_scope="waiting")

    with one.transaction(rolls_back=rolls_back):
        [follower] = one.enqueue(**KEYED)
        assert follower["status"] == "created"
        impatient.settle_one(attempt, verb)

    [found] = impatient.enqueue(**KEYED)
    if rolls_back:
        assert found["status"] == "created"
    else:
        assert found == {"status": "existed", "job_id": follower["job_id"]}


@pytest.mark.parametrize("rolls_back", [False, True])
def test_of_two_that_want_a_free_key_one_takes_it(rolls_back: bool, one: Session, two: Session) -> None:
    one.new_attempt(unique_key="k", unique_scope="waiting")

    with one.transaction(rolls_back=rolls_back):
        [first] = one.enqueue(**KEYED)
        answer = two.waiting("enqueue", behind=one, **KEYED)

    [second] = answer.result()
    if rolls_back:
        assert second["status"] == "created"
    else:
        assert second == {"status": "existed", "job_id": first["job_id"]}
