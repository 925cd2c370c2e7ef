"""Heartbeat against take_back where one of them has looked already, or speaks of an attempt of before."""

from __future__ import annotations

from races.sessions import Session, beat, ids


def states(rows: list[dict[str, object]]) -> list[object]:
    return [row["state"] for row in rows]


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
