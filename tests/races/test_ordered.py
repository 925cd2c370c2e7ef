"""Ordered jobs: producers whose transactions overlap, and one that commits after the head has ended."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from kit.contract import Row
from races.sessions import Session

ORDERED: Row = {"queue": "q", "task": "t", "concurrency_key": "k", "ordered": True}


def test_the_order_is_that_of_the_commits(one: Session, two: Session, three: Session) -> None:
    """Who comes later waits until the first has committed, so it has the higher id and the later place."""
    with one.transaction():
        [first] = one.enqueue(**ORDERED)
        answer = two.waiting("enqueue", behind=one, **ORDERED)
        assert three.claim(queues=["q"], worker_id="w") == []

    [second] = answer.result()
    assert first["job_id"] < second["job_id"]
    assert three.take()["job_id"] == first["job_id"]


def test_a_producer_that_stays_open_does_not_keep_the_others_from_running(
    one: Session, impatient: Session
) -> None:
    jobs = [impatient.new_job(**ORDERED) for _ in range(2)]

    with one.transaction():
        last = one.new_job(**ORDERED)
        for job in jobs:
            attempt = impatient.take()
            assert attempt["job_id"] == job
            impatient.settle_one(attempt, "complete")
        assert impatient.claim(queues=["q"], worker_id="w") == []

    assert impatient.take()["job_id"] == last


def test_a_producer_that_commits_after_the_head_has_ended_is_not_overlooked(
    one: Session, impatient: Session
) -> None:
    impatient.new_job(**ORDERED)
    attempt = impatient.take()

    with one.transaction():
        last = one.new_job(**ORDERED)  # held: the head is running
        impatient.settle_one(attempt, "complete")
        assert impatient.claim(queues=["q"], worker_id="w") == []  # and the signal is used up

    assert impatient.take()["job_id"] == last


def test_an_end_that_commits_after_the_producer_is_not_overlooked(one: Session, impatient: Session) -> None:
    one.new_job(**ORDERED)
    attempt = one.take()

    with one.transaction():
        one.settle_one(attempt, "complete")
        last = impatient.new_job(**ORDERED)
        assert impatient.claim(queues=["q"], worker_id="w") == []

    assert impatient.take()["job_id"] == last


def test_a_cancel_of_the_next_that_rolls_back_leaves_nobody_stuck(one: Session, impatient: Session) -> None:
    first, second = (impatient.new_job(**ORDERED) for _ in range(2))
    attempt = impatient.take()
    assert attempt["job_id"] == first

    with one.transaction(rolls_back=True):
        one.cancel_job(job_id=second)
        impatient.settle_one(attempt, "complete")
        assert impatient.claim(queues=["q"], worker_id="w") == []

    assert impatient.take()["job_id"] == second


def test_keeps_the_order_of_each_key_under_load(open_session) -> None:
    """Two producers, three workers, every way for an attempt to end; each key's jobs are started in order of id."""
    keys = [f"k{n}" for n in range(4)]
    started: dict[str, list[int]] = {key: [] for key in keys}
    left = 4 * 2 * 15

    def produce() -> None:
        session = open_session()
        for _ in range(15):
            for key in keys:
                session.enqueue(queue="q", task="t", concurrency_key=key, ordered=True)

    def work(number: int) -> None:
        session, dice = open_session(), random.Random(number)
        while session.value("select count(*) from taskq.finished") < left:
            for attempt in session.claim(queues=["q"], worker_id=f"w{number}", limit=3):
                started[attempt["concurrency_key"]].append(attempt["job_id"])
                session.settle_one(attempt, dice.choice(["complete", "complete", "release", "cancel"]))

    with ThreadPoolExecutor(5) as pool:
        for done in [*(pool.submit(produce) for _ in range(2)), *(pool.submit(work, n) for n in range(3))]:
            done.result()

    for key in keys:
        assert started[key] == sorted(started[key])
        assert len(set(started[key])) == 2 * 15
