"""Claim against set_concurrency_limit: a raised limit reaches jobs on hold, a lowered one lets nothing new start."""

from __future__ import annotations

import pytest

from kit.contract import refused
from races.sessions import Session, claims, ids


@pytest.fixture
def jobs(one: Session) -> list[int]:
    return [one.new_job(concurrency_key="k") for _ in range(3)]


def test_claim_under_an_open_raise_counts_the_old_limit_and_loses_nothing(
    jobs: list[int], one: Session, impatient: Session
) -> None:
    with one.transaction():
        one.set_concurrency_limit(key="k", max_running=3)
        assert claims(impatient) == jobs[:1]

    assert claims(impatient) == jobs[1:]


def test_raise_that_commits_before_the_claim_that_holds(
    jobs: list[int], one: Session, impatient: Session
) -> None:
    with one.transaction():
        assert claims(one) == jobs[:1]
        impatient.set_concurrency_limit(key="k", max_running=2)
        assert claims(impatient) == []

    assert claims(impatient) == jobs[1:2]


def test_raise_that_comes_between_the_count_of_a_claim_and_its_hold(
    jobs: list[int], one: Session, two: Session, three: Session
) -> None:
    with three.table_locked("ready", "share"):
        answer = two.waiting("claim", behind=three, queues=["q"], worker_id="w", limit=10)
        one.set_concurrency_limit(key="k", max_running=3)

    assert ids(answer.result()) == jobs[:1]
    assert claims(one) == jobs[1:]


def test_raise_that_rolls_back_lets_nothing_start(jobs: list[int], one: Session, impatient: Session) -> None:
    with one.transaction(rolls_back=True):
        one.set_concurrency_limit(key="k", max_running=3)
        assert claims(impatient) == jobs[:1]

    assert claims(impatient) == []


def test_claim_that_counted_before_a_lowered_limit_keeps_its_jobs(
    jobs: list[int], one: Session, impatient: Session
) -> None:
    one.set_concurrency_limit(key="k", max_running=2)

    with one.transaction():
        assert claims(one) == jobs[:2]
        impatient.set_concurrency_limit(key="k", max_running=0)

    assert one.value("select count(*) from taskq.running") == 2
    assert claims(impatient) == []


def test_key_that_was_closed_while_a_claim_waits_starts_nothing_until_it_is_opened(
    jobs: list[int], one: Session, two: Session, three: Session
) -> None:
    with three.table_locked("ready", "access exclusive"):
        answer = two.waiting("claim", behind=three, queues=["q"], worker_id="w", limit=10)
        # before its first look: signals are asked for first, which this table does not stop
        three.set_concurrency_limit(key="k", max_running=0)

    assert answer.result() == []
    assert claims(one) == []
    one.set_concurrency_limit(key="k", max_running=None)
    assert claims(one) == jobs[:1]


def test_two_limits_of_one_key_wait_for_each_other_and_the_last_counts(
    jobs: list[int], one: Session, two: Session
) -> None:
    with one.transaction():
        one.set_concurrency_limit(key="k", max_running=3)
        answer = two.waiting("set_concurrency_limit", behind=one, key="k", max_running=2)

    assert answer.result() == [{"key": "k", "max_running": 2}]
    assert claims(one) == jobs[:2]


def test_limit_of_another_key_does_not_wait(one: Session, impatient: Session) -> None:
    with one.transaction():
        one.set_concurrency_limit(key="k", max_running=3)
        assert impatient.set_concurrency_limit(key="other", max_running=2)[0]["max_running"] == 2


def test_a_pattern_that_is_raised_while_a_claim_holds_its_jobs_leaves_none_of_them_stuck(
    one: Session, two: Session
) -> None:
    one.set_concurrency_limit(key="user:*", max_running=0)
    job = one.new_job(concurrency_key="user:1")

    with one.transaction():
        assert one.claim(queues=["q"], worker_id="w") == []
        answer = two.waiting("set_concurrency_limit", behind=one, key="user:*", max_running=1)

    answer.result()
    assert two.take()["job_id"] == job


def test_a_claim_does_not_wait_for_a_change_of_a_pattern(one: Session, impatient: Session) -> None:
    """It counts the old limit, but puts nothing on hold that the change would not see."""
    one.set_concurrency_limit(key="closed*", max_running=0)
    closed = one.new_job(concurrency_key="closed")
    keyed, second, free = *(one.new_job(concurrency_key="k") for _ in range(2)), one.new_job()

    with one.transaction():
        one.set_concurrency_limit(key="closed*", max_running=3)
        claimed = impatient.claim(queues=["q"], worker_id="w", limit=10)
        assert ids(claimed) == [keyed, free]
        assert impatient.value("select count(*) from taskq.ready where hold is not null") == 0
        assert impatient.poll_hint(queues=["q"])[0]["state"] == "ready"

    assert impatient.take()["job_id"] == closed
    impatient.settle_one(claimed[0], "complete")
    assert impatient.take()["job_id"] == second


def test_a_pattern_is_refused_where_held_jobs_would_not_be_seen(one: Session) -> None:
    with one.transaction(rolls_back=True):
        one.run("set transaction isolation level repeatable read")
        with refused("TQ409", 'the limit of pattern "user:*" was set in a repeatable read transaction'):
            one.set_concurrency_limit(key="user:*", max_running=3)
