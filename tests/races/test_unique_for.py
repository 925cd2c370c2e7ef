"""Unique keys that have outlived their job: who takes one, against its return to the queue, a claim and retention."""

from __future__ import annotations

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row
from races.sessions import Session

KEYED: Row = {"queue": "q", "task": "t", "unique_key": "k"}

pytestmark = pytest.mark.usefixtures("clocks")


def ended(session: Session, key: str) -> int:
    """Make a job that holds *key* for a second after its enqueue, and let it end at once."""
    attempt = session.new_attempt(unique_key=key, unique_for="1 second")
    session.settle_one(attempt, "complete")
    return int(attempt["job_id"])


def test_a_job_that_is_queued_again_keeps_its_key_from_who_saw_it_run(
    one: Session, two: Session, three: Session
) -> None:
    """A start set the key free; who read that waits for another key, and the job comes back meanwhile."""
    ended(one, "a")
    attempt = one.new_attempt(unique_key="b", unique_scope="waiting", unique_for="1 second")
    two.ahead(hours=1)

    with three.transaction():
        three.run("select from taskq.unique_keys where key = 'a' for update")
        jobs = Jsonb([{"task": "t", "unique_key": key} for key in "ab"])
        answer = two.waiting("enqueue_many", behind=three, queue="q", jobs=jobs)
        one.settle_one(attempt, "release")

    first, second = answer.result()
    assert first["status"] == "created"
    assert second == {"ordinal": 1, "status": "existed", "job_id": attempt["job_id"]}
    assert one.check_integrity() == []


def test_a_live_job_keeps_its_key_from_who_saw_the_ended_one_of_before(
    one: Session, two: Session, three: Session
) -> None:
    """Also when the time of the new one's key is over for the clock of the other, who waits for another key."""
    ended(one, "a")
    ended(one, "b")
    one.ahead(hours=1)
    two.ahead(hours=2)

    with three.transaction():
        three.run("select from taskq.unique_keys where key = 'a' for update")
        jobs = Jsonb([{"task": "t", "unique_key": key} for key in "ab"])
        answer = two.waiting("enqueue_many", behind=three, queue="q", jobs=jobs)
        taken = one.new_job(unique_key="b", unique_for="1 minute")

    first, second = answer.result()
    assert first["status"] == "created"
    assert second == {"ordinal": 1, "status": "existed", "job_id": taken}
    assert one.check_integrity() == []


def test_retention_does_not_wait_for_who_takes_the_key(one: Session, impatient: Session) -> None:
    """Nor for that one's jobs: it deletes the others, and the rest when it comes again."""
    taken, other = ended(one, "k"), ended(one, "other")
    one.ahead(days=3)
    impatient.ahead(days=3)

    with one.transaction(rolls_back=True):
        assert one.enqueue(**KEYED)[0]["status"] == "created"
        assert impatient.prune() == [{"prune": 1}]
        assert impatient.rows("select id from taskq.jobs") == [{"id": taken}]

    assert impatient.check_integrity() == []
    assert impatient.prune() == [{"prune": 1}]
    assert impatient.value("select count(*) from taskq.unique_keys") == 0
    assert other not in [row["id"] for row in impatient.rows("select id from taskq.jobs")]


def test_a_claim_does_not_wait_for_who_takes_a_key_that_its_job_has_lost(
    one: Session, impatient: Session
) -> None:
    attempt = one.new_attempt(unique_key="k", unique_scope="waiting")
    with one.transaction(rolls_back=True):
        one.enqueue(**KEYED)
        impatient.settle_one(attempt, "release")  # without the key, which is being taken
    other = one.new_job(unique_key="other")

    with one.transaction():
        assert one.enqueue(**KEYED)[0]["status"] == "created"
        claimed = impatient.claim(queues=["q"], worker_id="w", limit=10)

    assert sorted(row["job_id"] for row in claimed) == [attempt["job_id"], other]
