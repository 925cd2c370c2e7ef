"""attempt_state against settle: whoever asks what became of a commit must not be told the state before it."""

from __future__ import annotations

import pytest

from races.sessions import Session


@pytest.mark.parametrize(
    ("rolls_back", "answered"),
    [
        (False, {"state": "settled", "status": "succeeded"}),
        (True, {"state": "running", "status": "running"}),
    ],
)
def test_waits_for_the_commit_in_flight(
    rolls_back: bool, answered: dict[str, str], one: Session, two: Session
) -> None:
    attempt = one.new_attempt()
    own = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}

    with one.transaction(rolls_back=rolls_back):
        one.settle_one(attempt, "complete")
        answer = two.waiting("attempt_state", behind=one, **own)

    assert answer.result() == [answered]
