"""What a worker knows of pauses, when two threads ask."""

from __future__ import annotations

import pytest

from taskq_sync.worker.events import Events, QueuesPaused
from taskq_sync.worker.pauses import Pauses


@pytest.fixture
def heard() -> list[tuple[str, ...]]:
    return []


@pytest.fixture
def pauses(heard: list[tuple[str, ...]]) -> Pauses:
    events = Events()
    events.subscribe(QueuesPaused, lambda event: heard.append(event.queues))
    return Pauses(events)


def test_a_change_is_told_once(pauses: Pauses, heard: list[tuple[str, ...]]) -> None:
    pauses.update(["b", "a"], asked_at=1.0)
    pauses.update(["a", "b"], asked_at=2.0)
    pauses.update([], asked_at=3.0)

    assert heard == [("a", "b"), ()]


def test_an_answer_to_an_older_question_undoes_nothing(pauses: Pauses) -> None:
    pauses.update(["mail"], asked_at=2.0)
    pauses.update([], asked_at=1.0)

    assert pauses.queues == {"mail"}


def test_a_job_of_a_queue_shows_that_it_was_resumed(pauses: Pauses) -> None:
    pauses.update(["mail", "report"], asked_at=1.0)
    pauses.claimed_from(["mail", "other"], asked_at=2.0)

    assert pauses.queues == {"report"}


def test_a_job_that_was_claimed_before_the_pause_shows_nothing(pauses: Pauses) -> None:
    pauses.update(["mail"], asked_at=2.0)
    pauses.claimed_from(["mail"], asked_at=1.0)

    assert pauses.queues == {"mail"}


def test_a_job_of_another_queue_does_not_make_what_is_known_newer(pauses: Pauses) -> None:
    pauses.update(["mail"], asked_at=1.0)
    pauses.claimed_from(["other"], asked_at=3.0)
    pauses.update([], asked_at=2.0)

    assert pauses.queues == set()
