"""Enqueue with a unique key against the end of the job that holds it."""

# Scenarios B32, B34.

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row
from races.sessions import VERBS, Session, settlement

GOES_ON = [verb for verb in VERBS if verb not in ("complete", "cancel")]

UNIQUE: Row = {"queue": "q", "task": "t", "unique_key": "k"}


@pytest.mark.parametrize("verb", GOES_ON)
def test_enqueue_does_not_wait_for_a_settle_after_which_the_job_goes_on(
    verb: str, one: Session, impatient: Session
) -> None:
    attempt = one.new_attempt(unique_key="k")

    with one.transaction():
        one.settle_one(attempt, verb)
        assert impatient.enqueue(**UNIQUE) == [{"status": "existed", "job_id": attempt["job_id"]}]


@pytest.mark.parametrize("verb", VERBS)
def test_settle_does_not_wait_for_a_caller_that_found_the_holder_and_stays_open(
    verb: str, one: Session, impatient: Session
) -> None:
    attempt = one.new_attempt(unique_key="k")

    with one.transaction():
        assert one.enqueue(**UNIQUE) == [{"status": "existed", "job_id": attempt["job_id"]}]
        assert impatient.settle_one(attempt, verb)["result"] in ("ok", "retry_scheduled")


def test_successor_is_enqueued_after_complete_in_one_transaction(one: Session, two: Session) -> None:
    attempt = one.new_attempt(unique_key="k")

    with one.transaction():
        one.settle_one(attempt, "complete")
        [row] = one.enqueue(**UNIQUE)
        answer = two.waiting("enqueue", behind=one, **UNIQUE)

    assert row["status"] == "created"
    assert answer.result() == [{"status": "existed", "job_id": row["job_id"]}]


def test_enqueue_that_waited_for_a_final_take_back_makes_a_job(one: Session, two: Session) -> None:
    attempt = one.new_attempt(unique_key="k", max_attempts=1)
    one.run_out(attempt["job_id"])

    with one.transaction():
        one.take_back()
        answer = two.waiting("enqueue", behind=one, **UNIQUE)

    assert answer.result()[0]["status"] == "created"


def test_batch_of_enqueues_that_waited_keeps_its_order(one: Session, two: Session) -> None:
    attempt = one.new_attempt(unique_key="k")
    other = one.new_job(unique_key="held")

    with one.transaction():
        one.settle_one(attempt, "complete")
        documents = [{"task": "t", "unique_key": key} for key in ("new", "held", "k", "new")]
        answer = two.waiting("enqueue_many", behind=one, queue="q", jobs=Jsonb(documents))

    rows = answer.result()
    assert [row["status"] for row in rows] == ["created", "existed", "created", "existed"]
    assert (rows[1]["job_id"], rows[3]["job_id"]) == (other, rows[0]["job_id"])


def test_several_enqueues_that_waited_for_one_end_make_one_job(
    one: Session, open_session: Callable[..., Session]
) -> None:
    attempt = one.new_attempt(unique_key="k")

    with one.transaction():
        one.settle(**settlement(attempt, verb="complete"))
        answers = [open_session().waiting("enqueue", **UNIQUE) for _ in range(8)]

    rows = [answer.result()[0] for answer in answers]
    assert sorted(row["status"] for row in rows) == ["created"] + ["existed"] * 7
    assert len({row["job_id"] for row in rows}) == 1
