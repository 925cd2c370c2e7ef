"""Heartbeat against take_back: a beat that comes first keeps the lease, one that comes second never waits."""

from __future__ import annotations

from races.sessions import Session, beat, ids


def states(rows: list[dict[str, object]]) -> list[object]:
    return [row["state"] for row in rows]


def test_take_back_leaves_a_job_whose_beat_is_open(one: Session, impatient: Session) -> None:
    attempt, other = one.new_attempt(), one.new_attempt()
    one.run_out(attempt["job_id"], other["job_id"])

    with one.transaction():
        assert states(one.heartbeat(**beat(attempt))) == ["ok"]
        assert ids(impatient.take_back()) == [other["job_id"]]

    assert impatient.take_back() == []
    assert one.job(attempt["job_id"])["current_attempt_id"] == attempt["attempt_id"]


def test_job_whose_beat_rolled_back_is_taken_back(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction(rolls_back=True):
        one.heartbeat(**beat(attempt))
        assert impatient.take_back() == []

    assert ids(impatient.take_back()) == [attempt["job_id"]]


def test_beat_that_meets_an_open_take_back_is_busy_and_then_lost(one: Session, impatient: Session) -> None:
    attempt, other = one.new_attempt(), one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction():
        one.take_back()
        assert states(impatient.heartbeat(**beat(attempt, other))) == ["busy", "ok"]

    assert states(impatient.heartbeat(**beat(attempt, other))) == ["lost", "ok"]


def test_beat_revives_the_lease_of_a_take_back_that_rolled_back(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with one.transaction(rolls_back=True):
        one.take_back()
        assert states(impatient.heartbeat(**beat(attempt))) == ["busy"]

    assert states(impatient.heartbeat(**beat(attempt))) == ["ok"]
    assert impatient.take_back() == []


def test_take_back_that_started_before_a_beat_committed_leaves_the_job(
    one: Session, two: Session, three: Session
) -> None:
    """What it saw first was a lease that had run out; it looks again at the row that it has locked."""
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])

    with three.table_locked("passes", "access exclusive"):
        answer = two.waiting("take_back", behind=three)
        one.heartbeat(**beat(attempt))

    assert answer.result() == []


def test_stale_beat_is_lost_and_does_not_renew_the_attempt_that_followed(one: Session, two: Session) -> None:
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])
    one.take_back()
    again = one.take()
    one.run_out(again["job_id"])

    assert states(two.heartbeat(**beat(attempt))) == ["lost"]
    assert ids(two.take_back()) == [again["job_id"]]
