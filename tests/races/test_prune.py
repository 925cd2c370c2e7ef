"""Prune against whoever looks at what it would delete: it passes that over, and leaves nothing half deleted."""

# Scenario B38.

from __future__ import annotations

import pytest

from kit.contract import refused
from races.sessions import Session, settlement


@pytest.fixture
def over(one: Session) -> list[int]:
    """Two finished jobs whose retention is over."""
    attempts = [one.new_attempt(), one.new_attempt()]
    for attempt in attempts:
        one.settle_one(attempt, "release")
    attempts = one.claim(queues=["q"], worker_id="w", limit=2)
    one.settle(**settlement(*attempts, verb="complete"))
    one.run("update taskq.finished set purge_at = taskq.clock()")
    return [attempt["job_id"] for attempt in attempts]


def test_cancel_that_waited_for_a_prune_finds_no_job(over: list[int], one: Session, two: Session) -> None:
    with one.transaction():
        assert one.prune() == [{"prune": 2}]
        answer = two.waiting("cancel_job", behind=one, job_id=over[0])

    with refused("TQ001", f"no job {over[0]}"):
        answer.result()
    assert one.value("select count(*) from taskq.jobs") == 0
    assert one.value("select count(*) from taskq.attempts") == 0


def test_cancel_that_waited_for_a_prune_that_rolled_back_finds_the_ended_job(
    over: list[int], one: Session, two: Session
) -> None:
    with one.transaction(rolls_back=True):
        one.prune()
        answer = two.waiting("cancel_job", behind=one, job_id=over[0])

    assert answer.result() == [{"job_id": over[0], "result": "already_ended", "status": "succeeded"}]


def test_prune_passes_over_a_job_that_a_cancel_looks_at(
    over: list[int], one: Session, impatient: Session
) -> None:
    with one.transaction():
        assert one.cancel_job(job_id=over[0])[0]["result"] == "already_ended"
        assert impatient.prune() == [{"prune": 1}]

    assert one.job(over[0])["status"] == "succeeded"
    assert impatient.prune() == [{"prune": 1}]


def test_second_prune_returns_at_once_while_the_first_is_open(
    over: list[int], one: Session, impatient: Session
) -> None:
    with one.transaction(rolls_back=True):
        assert one.prune() == [{"prune": 2}]
        assert impatient.prune() == [{"prune": 0}]

    assert impatient.prune() == [{"prune": 2}]


def test_settle_asked_again_does_not_wait_for_a_prune_and_is_lost_after_it(
    over: list[int], one: Session, impatient: Session
) -> None:
    fences = one.rows("select id as job_id, attempt_id from taskq.finished order by id")

    with one.transaction():
        one.prune()
        answers = impatient.settle(**settlement(*fences, verb="complete"))
        assert [row["result"] for row in answers] == ["already_settled"] * 2

    answers = impatient.settle(**settlement(*fences, verb="complete"))
    assert [row["result"] for row in answers] == ["lost"] * 2


@pytest.mark.parametrize("look", ["stop_worker", "announce"])
def test_prune_does_not_wait_for_who_is_about_a_worker_of_long_ago(
    look: str, one: Session, impatient: Session
) -> None:
    for worker in ("w1", "w2"):
        one.announce(worker_id=worker, info={})
    one.run("update taskq.workers set seen_at = taskq.clock() - interval '2 days'")
    more = {"info": {}} if look == "announce" else {}

    with one.transaction(rolls_back=True):
        getattr(one, look)(worker_id="w1", **more)
        impatient.prune()
        assert impatient.rows("select worker_id from taskq.workers") == [{"worker_id": "w1"}]

    impatient.prune()
    assert impatient.rows("select worker_id from taskq.workers") == []


def test_prune_does_not_wait_for_who_registers_a_sleeper_of_long_ago(
    one: Session, impatient: Session
) -> None:
    one.sleep_until(worker_id="w", queues=["q"], wakes_at="2020-01-01")

    with one.transaction(rolls_back=True):
        one.sleep_until(worker_id="w", queues=["q"], wakes_at="2020-01-02")
        impatient.prune()

    impatient.prune()
    assert one.value("select count(*) from taskq.sleepers") == 0
