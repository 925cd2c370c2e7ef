"""What waits for a slot, and how long it is kept in mind."""

from __future__ import annotations

import math

from kit.claimed import claimed_job
from taskq_sync.worker.attempts import LiveAttempt
from taskq_sync.worker.waiting import PATIENCE, Waiting


def attempts(*fences: int) -> list[LiveAttempt]:
    return [LiveAttempt(claimed_job(attempt_id=fence), sent_at=0.0) for fence in fences]


def fences(found: list[LiveAttempt]) -> list[int]:
    return [attempt.fence for attempt in found]


def test_takes_what_nobody_has_started_in_time() -> None:
    waiting = Waiting()
    given = attempts(1, 2, 3)
    waiting.add(given, 10.0)
    assert given[0].take()
    assert waiting.late_at == 10.0 + PATIENCE
    assert waiting.take_late(10.0 + PATIENCE - 0.1) == []
    assert fences(waiting.take_late(10.0 + PATIENCE)) == [2, 3]
    assert waiting.late_at == math.inf


def test_forgets_a_batch_whose_last_attempt_was_started() -> None:
    waiting = Waiting()
    first, second = attempts(1, 2), attempts(3, 4)
    waiting.add(first, 10.0)
    for attempt in first:
        assert attempt.take()
    waiting.add(second, 10.5)
    assert waiting.late_at == 10.5 + PATIENCE


def test_keeps_a_batch_of_which_one_attempt_waits() -> None:
    waiting = Waiting()
    first, second = attempts(1, 2), attempts(3, 4)
    waiting.add(first, 10.0)
    assert first[0].take()
    waiting.add(second, 10.5)
    assert waiting.late_at == 10.0 + PATIENCE
    assert fences(waiting.take_all()) == [2, 3, 4]


def test_a_claim_of_nothing_to_hand_over_is_not_kept() -> None:
    waiting = Waiting()
    waiting.add([], 10.0)
    assert waiting.late_at == math.inf
