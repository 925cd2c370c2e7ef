"""Unique keys of scope `waiting`: the start of their job against the follower that asks for the key."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row
from kit.waiting import eventually
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


def test_a_batch_that_waited_does_not_replace_a_job_that_came_back_without_its_key(
    open_session: Callable[..., Session],
) -> None:
    """It would hold the jobs of others while it waits for who has the key now, who may be waiting for one of those."""
    locker, batch, worker, taker = (open_session() for _ in range(4))
    replacing = {"task": "t", "unique_scope": "waiting", "unique_mode": "replace"}
    first, second = (worker.new_job(unique_key=key, unique_scope="waiting") for key in "ab")

    with taker.transaction():
        with locker.transaction():
            locker.row_locked_by_hand("ready", first)
            jobs = Jsonb([{**replacing, "unique_key": key} for key in "ab"])
            answer = batch.waiting("enqueue_many", behind=locker, queue="q", jobs=jobs)
            attempt = worker.take()
            assert attempt["job_id"] == second
            [follower] = taker.enqueue(queue="q", unique_key="b", **replacing)
            assert follower["status"] == "created"
            worker.settle_one(attempt, "release")
        eventually(lambda: taker.pid in batch.blocked_by(), "the batch waits for who has the key")
        assert taker.enqueue(queue="q", unique_key="a", **replacing) == [
            {"status": "replaced", "job_id": first}
        ]

    assert [(row["status"], row["job_id"]) for row in answer.result()] == [
        ("replaced", first),
        ("replaced", follower["job_id"]),
    ]
