"""Three calls of three sessions about one job, each order forced; pairs are in `test_pairs.py`.

Who waits for a row waits in the order of coming, so the second call acts where the first has put the job, and the
third where the second has.
"""

# Scenarios B38, B41, B48.

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack

import pytest

from kit.contract import Row
from races.sessions import VERBS, Session, beat, claims, ids, settlement

every_verb = pytest.mark.parametrize("verb", VERBS)
either_end = pytest.mark.parametrize("rolls_back", [False, True], ids=["commits", "rolls back"])

#: Where an attempt lands that nobody else meddles with.
LANDINGS = {
    "complete": "succeeded",
    "fail": "queued",
    "snooze": "queued",
    "release": "queued",
    "cancel": "cancelled",
}


def result(answer: Future[list[Row]]) -> str:
    [row] = answer.result()
    return str(row["result"])


@pytest.fixture
def expired(one: Session) -> Row:
    """An attempt whose lease has run out."""
    attempt = one.new_attempt()
    one.run_out(attempt["job_id"])
    return attempt


# claim, settle, take_back


@every_verb
@either_end
def test_job_on_its_way_back_from_a_lost_lease_is_settled_by_nobody_and_claimed_after_it(
    rolls_back: bool, verb: str, expired: Row, one: Session, two: Session, impatient: Session
) -> None:
    with one.transaction(rolls_back=rolls_back):
        assert ids(one.take_back()) == [expired["job_id"]]
        settled = two.waiting("settle", behind=one, **settlement(expired, verb=verb))
        assert claims(impatient) == []

    if rolls_back:
        assert settled.result()[0]["status"] == LANDINGS[verb]
        return
    assert result(settled) == "lost"
    again = impatient.take()
    assert again["attempt_id"] > expired["attempt_id"]
    assert two.settle_one(expired, verb)["result"] == "lost"
    assert two.settle_one(again, verb)["status"] == LANDINGS[verb]


@every_verb
@either_end
def test_job_that_is_being_settled_is_neither_taken_back_nor_claimed(
    rolls_back: bool, verb: str, expired: Row, one: Session, impatient: Session, two: Session
) -> None:
    with one.transaction(rolls_back=rolls_back):
        one.settle_one(expired, verb)
        assert impatient.take_back() == []
        assert claims(impatient) == []

    if rolls_back:
        assert ids(impatient.take_back()) == [expired["job_id"]]
        assert claims(two) == [expired["job_id"]]
    else:
        assert impatient.take_back() == []
        one.run("update taskq.ready set scheduled_at = taskq.clock()")  # a snooze is over
        assert claims(two) == ([expired["job_id"]] if LANDINGS[verb] == "queued" else [])


@every_verb
@either_end
def test_stale_settle_and_take_back_pass_by_a_claim_that_is_open(
    rolls_back: bool, verb: str, expired: Row, one: Session, impatient: Session
) -> None:
    job_id = expired["job_id"]
    assert ids(one.take_back()) == [job_id]

    with one.transaction(rolls_back=rolls_back):
        again = one.take(lease="0.1 s")
        one.run("update taskq.running set lease_expires_at = taskq.clock()")
        assert impatient.settle_one(expired, verb)["result"] == "lost"
        assert impatient.take_back() == []

    assert ids(impatient.take_back()) == ([] if rolls_back else [job_id])
    assert one.settle_one(again, verb)["result"] == "lost"
    assert one.job(job_id)["status"] == "queued"


# cancel, settle, take_back


@every_verb
@either_end
def test_settle_after_a_cancel_obeys_it_and_take_back_passes_by(
    rolls_back: bool, verb: str, expired: Row, one: Session, two: Session, impatient: Session
) -> None:
    with one.transaction(rolls_back=rolls_back):
        assert one.cancel_job(job_id=expired["job_id"])[0]["result"] == "requested"
        settled = two.waiting("settle", behind=one, **settlement(expired, verb=verb))
        assert impatient.take_back() == []

    landing = LANDINGS[verb] if rolls_back or verb == "complete" else "cancelled"
    assert settled.result()[0]["status"] == landing
    assert impatient.take_back() == []
    assert one.job(expired["job_id"])["status"] == landing


@every_verb
@either_end
def test_cancel_and_settle_that_waited_for_a_take_back_find_where_it_put_the_job(
    rolls_back: bool, verb: str, expired: Row, one: Session, two: Session, three: Session
) -> None:
    job_id = expired["job_id"]
    with one.transaction(rolls_back=rolls_back):
        one.take_back()
        cancelled = two.waiting("cancel_job", behind=one, job_id=job_id)
        settled = three.waiting("settle", behind=two, **settlement(expired, verb=verb))

    if rolls_back:
        assert result(cancelled) == "requested"
        assert result(settled) == "ok"
        assert one.job(job_id)["status"] == ("succeeded" if verb == "complete" else "cancelled")
    else:
        assert result(cancelled) == "cancelled"
        assert result(settled) == "lost"
        assert one.job(job_id)["outcome"] == "cancelled"


@every_verb
@either_end
def test_cancel_that_waited_for_a_settle_ends_what_goes_on_and_take_back_passes_by(
    rolls_back: bool, verb: str, expired: Row, one: Session, two: Session, impatient: Session
) -> None:
    job_id = expired["job_id"]
    with one.transaction(rolls_back=rolls_back):
        one.settle_one(expired, verb)
        cancelled = two.waiting("cancel_job", behind=one, job_id=job_id)
        assert impatient.take_back() == []

    if rolls_back:
        assert result(cancelled) == "requested"
        assert impatient.take_back()[0]["status"] == "cancelled"
        assert one.job(job_id)["outcome"] == "cancelled_after_expiry"
    else:
        assert result(cancelled) == ("cancelled" if LANDINGS[verb] == "queued" else "already_ended")
        assert impatient.take_back() == []


# redrive, enqueue with the job's unique key, settle


@pytest.fixture
def dead(one: Session) -> Row:
    """An attempt that has failed for good; its job had a unique key."""
    attempt = one.new_attempt(unique_key="k")
    one.settle(**settlement(attempt, verb="fail", retryable=False))
    return attempt


@every_verb
@either_end
def test_job_that_is_put_back_has_its_key_before_who_enqueues_meanwhile(
    rolls_back: bool, verb: str, dead: Row, one: Session, two: Session, impatient: Session
) -> None:
    """The late settle of its old attempt waits for neither and ends neither."""
    with one.transaction(rolls_back=rolls_back):
        assert one.redrive(job_id=dead["job_id"])[0]["result"] == "redriven"
        enqueued = two.waiting("enqueue", behind=one, queue="q", task="t", unique_key="k")
        answer = impatient.settle_one(dead, verb)

    known = "already_settled" if verb == "fail" else "settle_conflict"
    assert answer["result"] == impatient.settle_one(dead, verb)["result"] == known
    [row] = enqueued.result()
    assert (row["status"], row["job_id"] == dead["job_id"]) == (
        ("created", False) if rolls_back else ("existed", True)
    )
    assert claims(impatient) == [row["job_id"]]


@every_verb
@either_end
def test_put_back_waits_for_who_enqueues_with_the_key(
    rolls_back: bool, verb: str, dead: Row, one: Session, two: Session, impatient: Session
) -> None:
    with one.transaction(rolls_back=rolls_back):
        follower = one.new_job(unique_key="k")
        redriven = two.waiting("redrive", behind=one, job_id=dead["job_id"])
        impatient.settle_one(dead, verb)

    assert result(redriven) == ("redriven" if rolls_back else "key_taken")
    assert claims(impatient) == [dead["job_id"] if rolls_back else follower]


@every_verb
@either_end
def test_put_back_waits_for_the_end_of_the_follower_that_has_the_key(
    rolls_back: bool, verb: str, dead: Row, one: Session, two: Session, three: Session
) -> None:
    """And so does who enqueues; of the two the first gets the key."""
    follower = one.new_attempt(unique_key="k")

    with one.transaction(rolls_back=rolls_back):
        one.settle_one(follower, verb)
        ends = LANDINGS[verb] != "queued"
        calls = {
            "redrive": {"job_id": dead["job_id"]},
            "enqueue": {"queue": "q", "task": "t", "unique_key": "k"},
        }
        if ends:
            answers = [
                session.waiting(call, behind=one, **arguments)
                for session, (call, arguments) in zip((two, three), calls.items(), strict=True)
            ]

    if not ends:  # nobody waits, but for a key that changes hands: it is the follower's all the time
        assert two.redrive(**calls["redrive"])[0]["result"] == "key_taken"
        assert three.enqueue(**calls["enqueue"])[0]["status"] == "existed"
        return
    [back], [made] = (answer.result() for answer in answers)
    if rolls_back:
        assert (back["result"], made["job_id"]) == ("key_taken", follower["job_id"])
    else:
        winner = dead["job_id"] if back["result"] == "redriven" else made["job_id"]
        assert (back["result"], made["status"]) in [("redriven", "existed"), ("key_taken", "created")]
        assert made["job_id"] == winner
        assert claims(one) == [winner]


# pause, claim, purge


@either_end
def test_purge_of_a_paused_queue_passes_by_what_a_claim_has_taken_before_the_pause(
    rolls_back: bool, one: Session, two: Session, impatient: Session
) -> None:
    first, second = one.new_job(), one.new_job()

    with one.transaction(rolls_back=rolls_back):
        assert one.take()["job_id"] == first
        with two.transaction():
            two.pause_queue(queue="q")
            assert ids(impatient.purge_queue(queue="q")) == [second]
        assert claims(impatient) == []

    assert claims(impatient) == []
    assert ids(impatient.purge_queue(queue="q")) == ([first] if rolls_back else [])
    assert one.job(first)["status"] == ("cancelled" if rolls_back else "running")


@either_end
def test_claim_passes_by_what_is_being_purged_and_takes_what_comes_before_the_pause(
    rolls_back: bool, one: Session, two: Session, impatient: Session
) -> None:
    purged = [one.new_job(), one.new_job()]

    with one.transaction(rolls_back=rolls_back):
        assert ids(one.purge_queue(queue="q")) == purged
        with two.transaction():
            two.pause_queue(queue="q")
            late = impatient.new_job()
            assert claims(impatient) == [late]

    assert claims(impatient) == []
    impatient.resume_queue(queue="q")
    assert claims(impatient) == (purged if rolls_back else [])


# claim, key, free: one claim takes the key's lock, another passes by, and meanwhile a slot becomes free


@pytest.fixture
def running(one: Session) -> Row:
    """The attempt that fills the key."""
    return one.new_attempt(concurrency_key="k")


@pytest.fixture
def waiting(running: Row, one: Session) -> list[int]:
    return [one.new_job(concurrency_key="k") for _ in range(2)]


@either_end
@pytest.mark.parametrize("freed_first", [False, True], ids=["claim first", "settle first"])
def test_slot_that_becomes_free_under_a_claim_that_counts_it_full_is_found_by_the_next(
    freed_first: bool,
    rolls_back: bool,
    running: Row,
    waiting: list[int],
    one: Session,
    two: Session,
    impatient: Session,
) -> None:
    """The claim is open, with the key's lock and the holds it has made; the settle ends before it, or after it."""
    with ExitStack() as settled:
        settled.enter_context(two.transaction())
        two.settle_one(running, "complete")
        with one.transaction(rolls_back=rolls_back):
            assert claims(one) == []
            assert claims(impatient) == []
            if freed_first:
                settled.close()
                assert claims(impatient) == []
        if not freed_first:
            assert claims(impatient) == []

    assert claims(impatient) == waiting[:1]
    assert claims(impatient) == []


def test_claim_that_brings_a_job_back_and_rolls_back_leaves_it_to_the_next(
    running: Row, waiting: list[int], one: Session, two: Session, impatient: Session
) -> None:
    assert claims(one) == []
    one.settle_one(running, "complete")

    with one.transaction(rolls_back=True):
        assert claims(one) == waiting[:1]
        with two.transaction(rolls_back=True):
            two.row_locked_by_hand("ready", waiting[1])
            assert claims(impatient) == []

    assert claims(impatient) == waiting[:1]


# hold, settle, and a claim that comes between them


@pytest.mark.parametrize("verb", VERBS)
@either_end
def test_settle_between_the_count_and_the_hold_is_not_lost_to_a_third_claim(
    rolls_back: bool, verb: str, running: Row, waiting: list[int], one: Session, two: Session, three: Session
) -> None:
    """The signal of the settle may not be used up before the holds that it is for can be seen."""
    with two.transaction(rolls_back=rolls_back):
        with three.table_locked("ready", "share"):  # rows may be locked, not written
            held = two.waiting("claim", behind=three, queues=["q"], worker_id="w", limit=10)
            if LANDINGS[verb] != "queued":  # which writes into the table
                one.settle_one(running, verb)
                assert claims(one) == []
        assert held.result() == []
        if LANDINGS[verb] == "queued":
            one.settle_one(running, verb)
            one.run("update taskq.ready set priority = -1 where id = %s", running["job_id"])
        assert claims(one) == []

    assert claims(one) == waiting[:1]


@either_end
def test_beat_between_a_claim_that_holds_and_a_settle_changes_nothing(
    rolls_back: bool, running: Row, waiting: list[int], one: Session, two: Session, impatient: Session
) -> None:
    with one.transaction(rolls_back=rolls_back):
        assert claims(one) == []
        with two.transaction():
            two.settle_one(running, "complete")
            assert impatient.heartbeat(**beat(running))[0]["state"] == "busy"
            assert claims(impatient) == []

    assert impatient.heartbeat(**beat(running))[0]["state"] == "lost"
    assert claims(impatient) == waiting[:1]
