"""Two enqueues of one unique key: the second waits for the first and is told the truth, also when that rolls back."""

# Scenario B34.

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row, refused
from races.sessions import Session

UNIQUE: Row = {"queue": "q", "task": "t", "unique_key": "k"}


def batch(*keys: str | None) -> Row:
    """Return the arguments of `enqueue_many` for jobs with these unique keys."""
    return {"queue": "q", "jobs": Jsonb([{"task": "t", "unique_key": key} for key in keys])}


def test_second_finds_the_job_of_the_first_that_commits(one: Session, two: Session) -> None:
    with one.transaction():
        job_id = one.new_job(**UNIQUE)
        answer = two.waiting("enqueue", behind=one, **UNIQUE)

    assert answer.result() == [{"status": "existed", "job_id": job_id}]


def test_second_makes_a_job_when_the_first_rolls_back(one: Session, two: Session) -> None:
    with one.transaction(rolls_back=True):
        undone = one.new_job(**UNIQUE)
        answer = two.waiting("enqueue", behind=one, **UNIQUE)

    [row] = answer.result()
    assert row["status"] == "created"
    assert one.rows("select id from taskq.jobs") == [{"id": row["job_id"]}]
    assert row["job_id"] != undone


def test_one_of_many_makes_the_job_when_the_first_rolls_back(
    one: Session, open_session: Callable[..., Session]
) -> None:
    with one.transaction(rolls_back=True):
        one.new_job(**UNIQUE)
        answers = [open_session().waiting("enqueue", **UNIQUE) for _ in range(20)]

    rows = [answer.result()[0] for answer in answers]
    assert sorted(row["status"] for row in rows) == ["created"] + ["existed"] * 19
    assert one.rows("select id from taskq.jobs") == [{"id": rows[0]["job_id"]}]
    assert {row["job_id"] for row in rows} == {rows[0]["job_id"]}


def test_wait_for_the_first_is_bounded_by_lock_timeout_and_stores_nothing(
    one: Session, open_session: Callable[..., Session]
) -> None:
    impatient = open_session(lock_timeout="20ms")

    with one.transaction():
        job_id = one.new_job(**UNIQUE)
        with refused("55P03", "canceling statement due to lock timeout"):
            impatient.enqueue(**UNIQUE)

    assert one.rows("select id from taskq.jobs") == [{"id": job_id}]


@pytest.mark.parametrize(
    "other",
    [{"unique_key": "other"}, {"queue": "elsewhere"}, {"unique_key": None}],
    ids=["key", "queue", "no key"],
)
def test_enqueue_of_anything_else_does_not_wait(
    other: dict[str, str], one: Session, impatient: Session
) -> None:
    with one.transaction():
        one.new_job(**UNIQUE)
        assert impatient.enqueue(**{**UNIQUE, **other})[0]["status"] == "created"


def test_open_enqueue_that_found_the_holder_keeps_nobody_waiting(one: Session, impatient: Session) -> None:
    job_id = one.new_job(**UNIQUE)

    with one.transaction():
        one.enqueue(**UNIQUE)
        assert impatient.enqueue(**UNIQUE) == [{"status": "existed", "job_id": job_id}]
        assert impatient.cancel_job(job_id=job_id)[0]["result"] == "cancelled"


def test_batches_with_the_same_keys_in_opposite_order_both_end(
    one: Session, two: Session, three: Session
) -> None:
    """Keys are taken in one order: in that of the documents, each batch would hold what the other waits for."""
    with three.transaction(rolls_back=True):
        three.new_job(queue="q", task="t", unique_key="m")
        first = one.waiting("enqueue_many", behind=three, **batch("a", "m", "z"))
        second = two.waiting("enqueue_many", behind=one, **batch("z", "m", "a"))

    assert [row["status"] for row in first.result()] == ["created"] * 3
    ids = [row["job_id"] for row in first.result()]
    assert [(row["status"], row["job_id"]) for row in second.result()] == [
        ("existed", job_id) for job_id in reversed(ids)
    ]


def test_keys_are_taken_in_the_same_order_whatever_the_language_of_the_database(
    one: Session, two: Session, three: Session
) -> None:
    with three.transaction(rolls_back=True):
        three.new_job(queue="q", task="t", unique_key="b")
        first = one.waiting("enqueue_many", behind=three, **batch("b", "B", "_", "ä"))
        second = two.waiting("enqueue_many", behind=one, **batch("ä", "_", "b", "B"))

    assert [row["status"] for row in first.result()] == ["created"] * 4
    assert [row["status"] for row in second.result()] == ["existed"] * 4


def test_batch_that_waited_for_a_rollback_makes_what_is_missing(one: Session, two: Session) -> None:
    held = one.new_job(queue="q", task="t", unique_key="held")

    with one.transaction(rolls_back=True):
        one.enqueue_many(**batch("a", "b"))
        answer = two.waiting("enqueue_many", behind=one, **batch("b", "held", None, "a"))

    rows = answer.result()
    assert [row["status"] for row in rows] == ["created", "existed", "created", "created"]
    assert rows[1]["job_id"] == held
    assert one.value("select count(*) from taskq.jobs") == 4


def test_enqueue_finds_the_next_holder_when_the_key_changed_hands_while_it_waited(
    one: Session, two: Session
) -> None:
    """The holder that it waited for ended and was followed, all in one transaction."""
    with one.transaction():
        job_id = one.new_job(**UNIQUE)
        answer = two.waiting("enqueue", behind=one, **UNIQUE)
        one.cancel_job(job_id=job_id)
        successor = one.new_job(**UNIQUE)

    assert answer.result() == [{"status": "existed", "job_id": successor}]
