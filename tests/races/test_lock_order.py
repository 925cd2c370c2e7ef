"""Calls that lock several things lock them in one order: sessions that ask for the same in opposite orders all end.

A third session holds what is in the middle. The first has then locked what comes before it and waits there; were the
second to begin at the other end, it would hold what the first asks for next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Row
from races.sessions import Session, settlement


def batch(jobs: Sequence[Row]) -> Row:
    """Return the arguments of `enqueue_many` for *jobs*."""
    return {"queue": "q", "jobs": Jsonb([{"task": "t", **job} for job in jobs])}


def both_end(jobs: Sequence[Row], one: Session, two: Session, middle: Session) -> tuple[list[Row], list[Row]]:
    """Enqueue *jobs* in both orders at once, while *middle* has a transaction open, and end that."""
    first = one.waiting("enqueue_many", behind=middle, **batch(jobs))
    second = two.waiting("enqueue_many", behind=one, **batch(jobs[::-1]))
    middle.run("rollback")
    return first.result(), second.result()[::-1]


def ordered(key: str) -> Row:
    return {"concurrency_key": key, "ordered": True}


@pytest.fixture
def middle(three: Session) -> Session:
    """A session in an open transaction."""
    three.run("begin")
    return three


def test_ordered_keys(one: Session, two: Session, middle: Session) -> None:
    keys = sorted("abcde", key=lambda key: int(one.value("select taskq.order_lock(%s)", key)))
    middle.new_job(**ordered(keys[2]))

    first, second = both_end([ordered(key) for key in keys], one, two, middle)

    assert all(before["job_id"] < after["job_id"] for before in first for after in second)


@pytest.mark.parametrize("asked", [{"unique_mode": "replace"}, {"unique_scope": "waiting"}], ids=str)
def test_jobs_that_hold_unique_keys(asked: Row, one: Session, two: Session, middle: Session) -> None:
    """By id, whatever their keys are: the first of two that share a lock lets in a third that wants it alone."""
    jobs = [one.new_job(unique_key=key, unique_scope=asked.get("unique_scope")) for key in "cab"]
    middle.row_locked_by_hand("ready", jobs[1])
    asked = {"unique_mode": "replace", **asked}

    first, second = both_end([{"unique_key": key, **asked} for key in "cab"], one, two, middle)

    assert [row["job_id"] for row in first] == [row["job_id"] for row in second] == jobs
    assert {row["status"] for row in (*first, *second)} == {"replaced"}


def test_unique_keys_whose_time_is_over(one: Session, two: Session, middle: Session) -> None:
    for key in "abc":
        one.settle_one(one.new_attempt(unique_key=key, unique_for="1 hour"), "complete")
    one.run("update taskq.unique_keys set expires_at = taskq.clock()")
    middle.run("select from taskq.unique_keys where key = 'b' for update")

    first, second = both_end([{"unique_key": key} for key in "abc"], one, two, middle)

    assert [row["status"] for row in first] == ["created"] * 3
    assert [row["job_id"] for row in second] == [row["job_id"] for row in first]


def test_unique_keys_of_jobs_that_have_been_started(one: Session, two: Session, middle: Session) -> None:
    for key in "abc":
        one.new_attempt(unique_key=key, unique_scope="waiting")
    middle.run("select from taskq.unique_keys where key = 'b' for update")

    first, second = both_end([{"unique_key": key} for key in "abc"], one, two, middle)

    assert [row["status"] for row in first] == ["created"] * 3
    assert [row["job_id"] for row in second] == [row["job_id"] for row in first]


def test_everything_at_once(one: Session, two: Session, middle: Session) -> None:
    """Ordered keys, unique keys that are new, over and held, and jobs to be replaced."""
    one.settle_one(one.new_attempt(unique_key="over", unique_for="1 hour"), "complete")
    one.run("update taskq.unique_keys set expires_at = taskq.clock()")
    one.new_attempt(unique_key="started", unique_scope="waiting")
    holder = one.new_job(unique_key="held")
    other = one.new_job(unique_key="another")
    jobs: list[Row] = [
        {**ordered("k"), "unique_key": "new"},
        {**ordered("l")},
        {"unique_key": "over"},
        {"unique_key": "started", "unique_scope": "waiting"},
        {"unique_key": "held", "unique_mode": "replace"},
        {"unique_key": "another", "unique_mode": "replace_keep_schedule"},
    ]
    middle.row_locked_by_hand("ready", other)

    first, second = both_end(jobs, one, two, middle)

    assert [row["status"] for row in first] == ["created"] * 4 + ["replaced"] * 2
    assert [row["status"] for row in second] == [
        "existed",
        "created",
        "existed",
        "existed",
        "replaced",
        "replaced",
    ]
    assert [row["job_id"] for row in first[4:]] == [holder, other]


def test_limits_of_patterns_and_claims(one: Session, two: Session, middle: Session) -> None:
    """The pattern waits for the claim that is open; a claim waits for neither."""
    for key in ("k1", "k2"):
        middle.new_job(concurrency_key=key)
    assert len(middle.claim(queues=["q"], worker_id="w", limit=10)) == 2

    first = one.waiting("set_concurrency_limit", behind=middle, key="k*", max_running=2)
    second = two.waiting("set_concurrency_limit", behind=middle, key="*", max_running=2)
    assert middle.set_concurrency_limit(key="k1", max_running=3)[0]["max_running"] == 3
    middle.run("rollback")

    assert first.result()[0]["max_running"] == second.result()[0]["max_running"] == 2


@pytest.mark.parametrize("verb", ["complete", "cancel"])
def test_batches_of_the_same_jobs_in_opposite_order_both_end(
    verb: str, one: Session, two: Session, three: Session
) -> None:
    """Locks are taken by id: with those of the documents, each batch would hold what the other waits for."""
    attempts = [one.new_attempt() for _ in range(10)]

    with three.transaction(rolls_back=True):
        three.row_locked_by_hand("running", attempts[5]["job_id"])
        first = one.waiting("settle", behind=three, **settlement(*attempts, verb=verb))
        second = two.waiting("settle", behind=one, **settlement(*reversed(attempts), verb=verb))

    assert [row["result"] for row in first.result()] == ["ok"] * 10
    assert [row["result"] for row in second.result()] == ["already_settled"] * 10


@pytest.mark.parametrize("verb", ["complete", "cancel"])
def test_of_a_job_that_another_attempt_holds_nobody_waits_for_the_row(
    verb: str, one: Session, two: Session
) -> None:
    """Of two workers each may have a stale attempt at what the other runs: were those rows locked, each would wait."""
    stale = one.new_attempt()
    one.settle_one(stale, "release")
    [valid] = two.claim(queues=["q"], worker_id="w", limit=1)
    assert valid["job_id"] == stale["job_id"]

    with two.transaction(rolls_back=True):
        two.row_locked_by_hand("running", valid["job_id"])
        answer = one.settle_one(stale, verb)

    assert (answer["result"], answer["status"]) == ("settle_conflict", "queued")


@pytest.mark.parametrize("scope", ["live", "waiting"])
@pytest.mark.parametrize("mode", ["keep", "replace"])
def test_batches_with_the_same_keys_in_any_order_do_not_deadlock(
    scope: str, mode: str, open_session: Callable[..., Session]
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


def test_batch_that_gives_up_what_it_has_taken_and_begins_anew_is_waited_for_no_longer(
    one: Session, two: Session, three: Session, impatient: Session
) -> None:
    """PostgreSQL lets who waits for a row of an inner subtransaction wait for all of it, also after a rollback."""
    one.settle_one(one.new_attempt(unique_key="z", unique_for="1 hour"), "complete")
    one.run("update taskq.unique_keys set expires_at = taskq.clock()")
    locked, ended = one.new_job(unique_key="m"), one.new_job(unique_key="a")
    jobs: list[Row] = [{"unique_key": key, "unique_mode": "replace"} for key in "amz"]

    with three.transaction(rolls_back=True):
        three.row_locked_by_hand("ready", locked)
        first = two.waiting("enqueue_many", behind=three, **batch(jobs))  # has taken z over
        impatient.cancel_job(job_id=ended)
        second = one.waiting("enqueue_many", behind=two, **batch([jobs[0], jobs[2]]))  # has taken a

    assert [row["status"] for row in second.result()] == ["created", "created"]
    assert [row["status"] for row in first.result()] == ["replaced"] * 3
