"""Heartbeat against settle: a beat neither waits for a row being settled nor calls it lost."""

from __future__ import annotations

import pytest

from races.sessions import VERBS, Session, beat, settlement

every_verb = pytest.mark.parametrize("verb", VERBS)


@every_verb
def test_beat_that_meets_an_open_settle_is_busy_and_then_lost(
    verb: str, one: Session, impatient: Session
) -> None:
    attempt, other = one.new_attempt(), one.new_attempt()

    with one.transaction():
        one.settle_one(attempt, verb)
        [busy, ok] = impatient.heartbeat(**beat(attempt, other))
        assert (busy["state"], busy["lease_expires_at"], ok["state"]) == ("busy", None, "ok")

    [lost, ok] = impatient.heartbeat(**beat(attempt, other))
    assert (lost["state"], ok["state"]) == ("lost", "ok")


def test_beat_renews_an_attempt_whose_settle_rolled_back(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction(rolls_back=True):
        one.settle_one(attempt, "complete")
        assert impatient.heartbeat(**beat(attempt))[0]["state"] == "busy"

    [renewed] = impatient.heartbeat(**beat(attempt))
    assert renewed["state"] == "ok"
    assert renewed["lease_expires_at"] > attempt["lease_expires_at"]


@every_verb
def test_settle_that_waited_for_a_beat_counts(verb: str, one: Session, two: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        one.heartbeat(**beat(attempt), progress={str(attempt["job_id"]): {"step": 1}})
        answer = two.waiting("settle", behind=one, **settlement(attempt, verb=verb))

    assert answer.result()[0]["result"] == ("retry_scheduled" if verb == "fail" else "ok")
    assert one.job(attempt["job_id"])["progress"] == {"step": 1}


def test_checkpoint_of_a_busy_row_is_not_stored_and_the_row_says_so(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction(rolls_back=True):
        one.row_locked_by_hand("running", attempt["job_id"])
        [row] = impatient.heartbeat(**beat(attempt), progress={str(attempt["job_id"]): {"step": 1}})

    assert (row["state"], row["progress_stored"]) == ("busy", False)
    assert one.job(attempt["job_id"])["progress"] is None


def test_busy_beat_still_delivers_a_cancel_request(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()
    one.cancel_job(job_id=attempt["job_id"])

    with one.transaction(rolls_back=True):
        one.row_locked_by_hand("running", attempt["job_id"])
        [row] = impatient.heartbeat(**beat(attempt))

    assert (row["state"], row["cancel_requested"]) == ("busy", True)


def test_two_beats_of_one_attempt_do_not_wait_for_each_other(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        assert one.heartbeat(**beat(attempt))[0]["state"] == "ok"
        assert impatient.heartbeat(**beat(attempt))[0]["state"] == "busy"
