"""A replacing enqueue against whatever moves its holder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row
from races.sessions import Session

REPLACING: Row = {"queue": "q", "task": "t", "unique_key": "k", "unique_mode": "replace"}


@pytest.mark.parametrize(("rolls_back", "status"), [(False, "running"), (True, "replaced")])
def test_waits_for_a_claim_of_the_holder(rolls_back: bool, status: str, one: Session, two: Session) -> None:
    holder = one.new_job(unique_key="k", payload={"n": 1})

    with one.transaction(rolls_back=rolls_back):
        one.take()
        answer = two.waiting("enqueue", behind=one, payload={"n": 2}, **REPLACING)

    assert answer.result() == [{"status": status, "job_id": holder}]
    assert one.job(holder)["payload"] == {"n": 1 if status == "running" else 2}


@pytest.mark.parametrize("rolls_back", [False, True])
def test_waits_for_a_cancel_of_the_holder(rolls_back: bool, one: Session, two: Session) -> None:
    holder = one.new_job(unique_key="k")

    with one.transaction(rolls_back=rolls_back):
        one.cancel_job(job_id=holder)
        answer = two.waiting("enqueue", behind=one, **REPLACING)

    [row] = answer.result()
    assert (row["status"], row["job_id"] == holder) == (
        ("replaced", True) if rolls_back else ("created", False)
    )


def test_the_holder_is_not_claimed_before_the_new_request_is_in(one: Session, impatient: Session) -> None:
    one.new_job(unique_key="k", payload={"n": 1})

    with one.transaction():
        one.enqueue(payload={"n": 2}, **REPLACING)
        assert impatient.claim(queues=["q"], worker_id="w") == []

    assert impatient.take()["payload"] == {"n": 2}


def test_of_two_that_replace_the_later_counts(one: Session, two: Session) -> None:
    one.new_job(unique_key="k", payload={"n": 0})

    with one.transaction():
        one.enqueue(payload={"n": 1}, **REPLACING)
        answer = two.waiting("enqueue", behind=one, payload={"n": 2}, **REPLACING)

    assert answer.result()[0]["status"] == "replaced"
    assert one.take()["payload"] == {"n": 2}


@pytest.mark.parametrize("scope", ["live", "waiting"])
@pytest.mark.parametrize("mode", ["keep", "replace"])
def test_batches_with_the_same_keys_in_any_order_do_not_deadlock(
    scope: str, mode: str, open_session, request: pytest.FixtureRequest
) -> None:
    """Four sessions, claims and ends in between; a deadlock or a failed batch is an error of its call."""

    def jobs(turn: int) -> Jsonb:
        keys = [str((turn * 7 + n * 3) % 20) for n in range(20)]
        if turn % 2:
            keys.reverse()
        options = {"unique_scope": scope, "unique_mode": mode}
        return Jsonb([{"task": "t", "unique_key": key, **options} for key in keys])

    def produce(number: int) -> None:
        session = open_session()
        for turn in range(15):
            session.enqueue_many(queue="q", jobs=jobs(number + turn))

    def work(number: int) -> None:
        session = open_session()
        for _ in range(30):
            for attempt in session.claim(queues=["q"], worker_id=f"w{number}", limit=7):
                session.settle_one(attempt, "release" if attempt["job_id"] % 3 else "complete")

    with ThreadPoolExecutor(4) as pool:
        for done in [
            pool.submit(produce, 0),
            pool.submit(produce, 1),
            pool.submit(work, 0),
            pool.submit(work, 1),
        ]:
            done.result()
