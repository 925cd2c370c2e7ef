"""Enqueue in a repeatable read or serializable transaction, while others commit: the truth, or 40001, as for any row.

What such a caller sees is the database as it was at its first statement. An answer that rests on what is no longer so
must not make a second holder of a key, nor leave a key to a job that is not there.
"""

# Scenario B34.

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row, refused
from races.sessions import Session

pytestmark = pytest.mark.parametrize("level", ["repeatable read", "serializable"])

KEYED: Row = {"queue": "q", "task": "t", "unique_key": "k"}


def enqueue(session: Session, **options: object) -> Row:
    [row] = session.enqueue(**{**KEYED, **options})
    return row


def enqueue_many(session: Session, **options: object) -> Row:
    """Enqueue the job in a batch with two others."""
    jobs = [{"task": "t", "unique_key": key, **options} for key in ("another", "k", "one more")]
    rows = session.enqueue_many(queue="q", jobs=Jsonb(jobs))
    assert [rows[0]["status"], rows[2]["status"]] == ["created"] * 2
    return {"status": rows[1]["status"], "job_id": rows[1]["job_id"]}


either_way = pytest.mark.parametrize("ask", [enqueue, enqueue_many])
every_mode = pytest.mark.parametrize("mode", ["keep", "replace", "replace_keep_schedule"])


@contextmanager
def seen(session: Session, level: str) -> Iterator[None]:
    """Keep a transaction of *level* open that has seen the database as it is now."""
    with session.transaction():
        session.run(f"set transaction isolation level {level}")
        session.value("select count(*) from taskq.job_view")
        yield


@contextmanager
def given_up(session: Session, level: str) -> Iterator[None]:
    """The same, where a statement of the block is refused by a serialization error, and nothing is stored."""
    with refused("40001"), seen(session, level):
        yield


def holders(session: Session) -> list[Row]:
    return session.rows("select key, job_id from taskq.unique_keys where key = 'k'")


def test_jobs_without_a_key_are_stored_whatever_others_do(level: str, one: Session, two: Session) -> None:
    with seen(one, level):
        other = two.new_job()
        two.settle_one(two.take(), "complete")
        job_id = one.new_job()
        rows = one.enqueue_many(queue="q", jobs=Jsonb([{"task": "t"}] * 2))

    assert [row["status"] for row in rows] == ["created"] * 2
    assert one.job(other)["status"] == "succeeded"
    taken = two.claim(queues=["q"], worker_id="w", limit=10)
    assert [row["job_id"] for row in taken] == [job_id, *(row["job_id"] for row in rows)]


@either_way
@every_mode
def test_key_that_was_taken_meanwhile_is_a_serialization_error(
    mode: str, ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    with given_up(one, level):
        holder = two.new_job(unique_key="k")
        ask(one, unique_mode=mode)

    assert one.rows("select id from taskq.jobs") == [{"id": holder}]
    assert ask(one, unique_mode=mode)["job_id"] == holder, "the transaction, run again"


@either_way
@pytest.mark.parametrize("rolls_back", [False, True])
def test_key_that_is_being_taken_is_waited_for(
    rolls_back: bool, ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    def wait() -> None:
        with two.transaction(rolls_back=rolls_back):
            two.new_job(unique_key="k")
            call, waits = one.begin(lambda: [ask(one)], behind=two)
            assert waits
        answers.extend(call.result())

    answers: list[Row] = []
    if rolls_back:
        with seen(one, level):
            wait()
        assert answers[0]["status"] == "created"
    else:
        with given_up(one, level):
            wait()
        assert one.value("select count(*) from taskq.jobs") == 1


@either_way
def test_holder_that_was_there_before_is_found(
    ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    holder = two.new_job(unique_key="k")

    with seen(one, level):
        assert ask(one) == {"status": "existed", "job_id": holder}
        assert two.take()["job_id"] == holder


@either_way
@every_mode
@pytest.mark.parametrize("scope", ["live", "waiting"])
@pytest.mark.parametrize("end", ["cancel", "complete", "prune"])
def test_key_that_was_given_up_meanwhile_is_taken(
    end: str, scope: str, mode: str, ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    """Its old row is still to be seen, beside the new one."""
    old = two.new_job(unique_key="k", unique_scope=scope)
    if end != "cancel":
        attempt = two.take()

    with seen(one, level):
        if end == "cancel":
            two.cancel_job(job_id=old)
        else:
            two.settle_one(attempt, "complete")
        if end == "prune":
            two.run("update taskq.finished set purge_at = taskq.clock()")
            assert two.prune() == [{"prune": 1}]
        answer = ask(one, unique_mode=mode)

    assert (answer["status"], answer["job_id"] == old) == ("created", False)
    assert holders(one) == [{"key": "k", "job_id": answer["job_id"]}]
    assert two.enqueue(**KEYED) == [{"status": "existed", "job_id": answer["job_id"]}]
    assert two.check_integrity() == []


@either_way
@every_mode
def test_key_that_changed_hands_meanwhile_is_a_serialization_error(
    mode: str, ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    old = two.new_job(unique_key="k")

    with given_up(one, level):
        two.cancel_job(job_id=old)
        follower = two.new_job(unique_key="k")
        ask(one, unique_mode=mode)

    assert holders(one) == [{"key": "k", "job_id": follower}]


@either_way
@pytest.mark.parametrize("asked", [{"unique_mode": "replace"}, {"unique_scope": "waiting"}], ids=str)
def test_holder_that_was_started_meanwhile_is_a_serialization_error(
    asked: Row, ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    """What would have been replaced, or was to see what the caller has written, is running."""
    two.new_job(unique_key="k", unique_scope=asked.get("unique_scope"), payload={"n": 1})

    with given_up(one, level):
        taken = two.take()
        ask(one, payload={"n": 2}, **asked)

    assert taken["payload"] == {"n": 1}
    assert two.settle_one(taken, "complete")["result"] == "ok"


@either_way
@pytest.mark.parametrize("meanwhile", ["followed", "came back"])
def test_free_key_that_was_taken_meanwhile_is_a_serialization_error(
    meanwhile: str, ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    attempt = two.new_attempt(unique_key="k", unique_scope="waiting")

    with given_up(one, level):
        if meanwhile == "followed":
            holder = two.new_job(unique_key="k", unique_scope="waiting")
        else:
            holder = attempt["job_id"]
            two.settle_one(attempt, "release")
        ask(one, unique_scope="waiting")

    assert holders(one) == [{"key": "k", "job_id": holder}]


@either_way
def test_key_whose_time_was_over_and_that_was_taken_meanwhile_is_a_serialization_error(
    ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    two.settle_one(two.new_attempt(unique_key="k", unique_for="1 hour"), "complete")
    two.run("update taskq.unique_keys set expires_at = taskq.clock()")

    with given_up(one, level):
        holder = two.new_job(unique_key="k")
        ask(one)

    assert holders(one) == [{"key": "k", "job_id": holder}]


def test_depth_is_that_of_the_beginning(level: str, one: Session, two: Session) -> None:
    """As with any caller beside it: the bound may be exceeded by the jobs of calls at once."""
    two.set_queue(queue="q", max_depth=1)

    with seen(one, level):
        two.new_job()
        one.new_job()
    assert one.value("select count(*) from taskq.ready") == 2

    with refused("TQ429"), seen(one, level):
        two.claim(queues=["q"], worker_id="w", limit=2)
        one.new_job()
    assert one.enqueue(queue="q", task="t")[0]["status"] == "created"


def test_ordered_job_waits_for_others_and_comes_after_them(level: str, one: Session, two: Session) -> None:
    ordered = {"queue": "q", "task": "t", "concurrency_key": "k", "ordered": True}

    with seen(one, level):
        with two.transaction():
            first = two.new_job(**ordered)
            answer = one.waiting("enqueue", behind=two, **ordered)
        assert two.take()["job_id"] == first
        second = answer.result()[0]["job_id"]

    assert second > first
    assert two.claim(queues=["q"], worker_id="w") == []
    two.settle(worker_id="w", settlements=Jsonb([_complete(two, first)]))
    assert two.take()["job_id"] == second


def _complete(session: Session, job_id: int) -> Row:
    fence = session.value("select attempt_id from taskq.running where id = %s", job_id)
    return {"job_id": job_id, "attempt_id": fence, "verb": "complete"}


@either_way
def test_two_such_callers_that_want_one_key_make_one_job(
    ask: Callable[..., Row], level: str, one: Session, two: Session
) -> None:
    with given_up(two, level):
        with seen(one, level):
            ask(one)
        enqueue(two)

    assert len(holders(one)) == 1
    assert enqueue(two)["status"] == "existed"


def test_two_such_callers_that_want_other_keys_both_get_them_when_run_again(
    level: str, one: Session, two: Session
) -> None:
    """A serializable transaction may be given up for one that did it no harm; run again, it goes through."""
    allowed = [psycopg.errors.SerializationFailure] if level == "serializable" else []
    with suppress(*allowed), seen(one, level):
        assert enqueue(one, unique_key="a")["status"] == "created"
        with suppress(*allowed), seen(two, level):
            assert enqueue(two, unique_key="b")["status"] == "created"

    for key in "ab":
        with seen(two, level):
            assert enqueue(two, unique_key=key)["status"] in ("created", "existed")
    assert one.value("select count(*) from taskq.jobs") == 2


def test_settle_in_a_snapshot_older_than_the_claim_is_lost_and_changes_nothing(
    level: str, one: Session, two: Session
) -> None:
    with seen(one, level):
        attempt = two.new_attempt()
        assert one.settle_one(attempt, "complete")["result"] == "lost"

    assert two.settle_one(attempt, "complete")["result"] == "ok"
