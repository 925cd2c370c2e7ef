"""The claim of a concurrency key against whatever makes room for it: a job on hold comes back, in every order.

The claim that finds a key full puts the rows beyond its room on hold; who frees a slot leaves a signal, and the next
claim that sees it tries the key's lock, deletes the signals, counts, and brings back as many rows as there is room.
Each test forces one order of these steps, and then asks for the job by a claim that must find it.
"""

# Scenario B41.

from __future__ import annotations

from concurrent.futures import Future

import pytest

from kit.contract import Row
from races.sessions import VERBS, Session, claims, ids, settlement

every_verb = pytest.mark.parametrize("verb", ["complete", "cancel"])


def keyed(session: Session, **arguments: object) -> int:
    """Enqueue a job with the key that all tests here share; at most one of it runs."""
    return session.new_job(**{"concurrency_key": "k", **arguments})


def hold(session: Session, job_id: int) -> str | None:
    """Return why the queued job cannot be claimed."""
    answer: str | None = session.value("select hold from taskq.ready where id = %s", job_id)
    return answer


def signals(session: Session) -> int:
    return int(session.value("select count(*) from taskq.signals"))


@pytest.fixture
def running(one: Session) -> Row:
    """The attempt that fills the key."""
    return one.new_attempt(concurrency_key="k")


@pytest.mark.parametrize("verb", VERBS)
def test_claim_that_saw_the_key_full_before_the_settle_committed(
    verb: str, running: Row, one: Session, impatient: Session
) -> None:
    waiting = keyed(one, priority=1)

    with one.transaction():
        one.settle_one(running, verb)
        assert claims(impatient) == []
        assert hold(impatient, waiting) == "key"

    assert claims(impatient) == [waiting]


@pytest.mark.parametrize("verb", VERBS)
def test_claim_that_holds_a_job_and_commits_after_the_settle(
    verb: str, running: Row, one: Session, impatient: Session
) -> None:
    waiting = keyed(one, priority=1)

    with one.transaction():
        assert claims(one) == []
        impatient.settle_one(running, verb)
        assert claims(impatient) == []

    assert claims(impatient) == [waiting]


@every_verb
def test_settle_that_comes_between_the_count_of_a_claim_and_its_hold(
    verb: str, running: Row, one: Session, two: Session, three: Session
) -> None:
    waiting = keyed(one)

    with three.table_locked("ready", "share"):  # rows may be locked, not written
        answer = two.waiting("claim", behind=three, queues=["q"], worker_id="w")
        one.settle_one(running, verb)

    assert answer.result() == []
    assert hold(one, waiting) == "key"
    assert claims(one) == [waiting]


@every_verb
def test_claim_counts_what_was_settled_after_it_took_the_lock_of_the_key(
    verb: str, running: Row, one: Session, two: Session, three: Session
) -> None:
    waiting = keyed(one)

    with three.table_locked("concurrency_limits", "access exclusive"):
        answer = two.waiting("claim", behind=three, queues=["q"], worker_id="w")
        one.settle_one(running, verb)

    assert ids(answer.result()) == [waiting]


def _restoring(session: Session, behind: Session) -> Future[list[Row]]:
    return session.waiting("claim", behind=behind, queues=["q"], worker_id="w", limit=10)


@every_verb
def test_settle_that_comes_between_the_deleted_signals_and_the_count(
    verb: str, one: Session, two: Session, three: Session
) -> None:
    """Two slots; one is free and signalled, the other becomes free while the claim is about to count."""
    one.set_concurrency_limit(key="k", max_running=2)
    first, second = one.new_attempt(concurrency_key="k"), one.new_attempt(concurrency_key="k")
    waiting = [keyed(one), keyed(one)]
    assert claims(one) == []
    one.settle_one(first, verb)

    with three.table_locked("concurrency_limits", "access exclusive"):
        answer = _restoring(two, behind=three)
        one.settle_one(second, verb)

    assert ids(answer.result()) == waiting
    assert signals(one) == 1, "the second settle asks for another look, which costs nothing"


@every_verb
def test_settle_that_comes_between_the_count_and_the_return_of_the_held(
    verb: str, one: Session, two: Session, three: Session
) -> None:
    one.set_concurrency_limit(key="k", max_running=2)
    first, second = one.new_attempt(concurrency_key="k"), one.new_attempt(concurrency_key="k")
    waiting = [keyed(one), keyed(one)]
    assert claims(one) == []
    one.settle_one(first, verb)

    with three.table_locked("ready", "share"):
        answer = _restoring(two, behind=three)
        one.settle_one(second, verb)

    assert ids(answer.result()) == waiting[:1]
    assert claims(one) == waiting[1:]


def test_settle_that_waits_to_signal_while_a_claim_looks(
    running: Row, one: Session, two: Session, three: Session
) -> None:
    """Its row has left the running ones, uncommitted; the claim neither waits for it nor counts the slot as free."""
    waiting = keyed(one)

    with three.table_locked("signals", "share"):
        settled = two.waiting("settle", behind=three, **settlement(running, verb="complete"))
        assert claims(one) == []
        assert hold(one, waiting) == "key"

    assert settled.result()[0]["result"] == "ok"
    assert claims(one) == [waiting]


def test_signal_outlives_a_claim_that_rolls_back(running: Row, one: Session, impatient: Session) -> None:
    waiting = keyed(one)
    assert claims(one) == []
    one.settle_one(running, "complete")

    with one.transaction(rolls_back=True):
        assert claims(one) == [waiting]
        assert claims(impatient) == []

    assert hold(one, waiting) == "key"
    assert claims(impatient) == [waiting]


def test_signal_outlives_a_claim_that_finds_the_key_locked(
    running: Row, one: Session, impatient: Session
) -> None:
    waiting = keyed(one)
    assert claims(one) == []
    one.settle_one(running, "complete")
    other = keyed(one, queue="other")

    with one.transaction(rolls_back=True):
        assert ids(one.claim(queues=["other"], worker_id="w")) == [other]
        assert claims(impatient) == []

    assert claims(impatient) == [waiting]


def test_claim_deletes_no_signal_of_a_key_that_another_has_locked(
    running: Row, one: Session, impatient: Session
) -> None:
    second = one.new_attempt(concurrency_key="other")
    held, free = keyed(one), one.new_job(concurrency_key="other")
    assert claims(one) == []
    elsewhere = keyed(one, queue="elsewhere")

    with one.transaction(rolls_back=True):
        impatient.settle_one(running, "complete")
        assert claims(one, "elsewhere") == [elsewhere]
        impatient.settle_one(second, "complete")
        assert claims(impatient) == [free]

    assert claims(impatient) == [held]


def test_keys_that_an_open_claim_has_locked_do_not_hide_the_signals_of_others(
    one: Session, impatient: Session
) -> None:
    """More keys than a claim tries at once are busy, and all of them are signalled."""
    attempts = [one.new_attempt(concurrency_key=f"free {number}") for number in range(20)]
    waiting = [one.new_job(queue="waiting", concurrency_key=f"free {number}") for number in range(20)]
    assert claims(one, "waiting", limit=20) == []
    busy = [f"busy {number}" for number in range(100)]
    for key in busy:
        one.new_job(concurrency_key=key)

    with one.transaction(rolls_back=True):
        assert len(claims(one, limit=50) + claims(one, limit=50)) == 100
        for key in busy:
            impatient.set_concurrency_limit(key=key, max_running=2)
        impatient.settle(**settlement(*attempts, verb="complete"))
        claimed = claims(impatient, "waiting", limit=20)

    assert claimed == waiting


def test_job_on_hold_comes_back_when_the_slot_went_to_an_open_claim_that_rolled_back(
    running: Row, one: Session, impatient: Session
) -> None:
    held = keyed(one)
    assert claims(one) == []
    one.settle_one(running, "complete")
    rival = keyed(one, priority=1)

    with one.transaction(rolls_back=True):
        assert claims(one, limit=1) == [rival]

    assert claims(impatient, limit=1) == [rival]
    impatient.settle_one({"job_id": rival, "attempt_id": _fence(one, rival)}, "complete")
    assert claims(impatient) == [held]


def _fence(session: Session, job_id: int) -> int:
    return int(session.job(job_id)["current_attempt_id"])


def test_take_back_makes_room(running: Row, one: Session, impatient: Session) -> None:
    waiting = keyed(one, priority=1)
    one.run_out(running["job_id"])

    with one.transaction():
        one.take_back()
        assert claims(impatient) == []

    assert claims(impatient, limit=1) == [waiting]


def test_cancel_of_the_only_row_that_came_back_lets_the_next_come(
    running: Row, one: Session, two: Session
) -> None:
    """The row that took the key's signal with it is cancelled in a queue that nobody claims from."""
    elsewhere, waiting = keyed(one, queue="elsewhere", priority=1), keyed(one)
    assert claims(one, "elsewhere", "q") == []
    one.settle_one(running, "complete")
    [taken] = one.claim(queues=["q"], worker_id="w")  # brings back the best row of each queue
    assert (taken["job_id"], hold(one, elsewhere)) == (waiting, None)
    third = keyed(one)
    assert claims(one) == []

    with two.transaction():
        two.cancel_job(job_id=elsewhere)
        one.settle_one(taken, "complete")

    assert claims(one) == [third]


def test_cancel_of_a_row_that_came_back_and_was_not_claimed_lets_the_next_come(
    running: Row, one: Session, two: Session
) -> None:
    first, second = keyed(one), keyed(one)
    assert claims(one) == []
    one.settle_one(running, "complete")
    assert claims(one, "elsewhere") == []
    assert [hold(one, each) for each in (first, second)] == [None, "key"]

    with two.transaction():
        two.cancel_job(job_id=first)
        assert claims(one) == []

    assert claims(one) == [second]


@pytest.mark.usefixtures("clocks")
def test_expiry_of_a_row_that_came_back_and_was_not_claimed_lets_the_next_come(
    running: Row, one: Session, two: Session
) -> None:
    first, second = keyed(one, ttl="1 min"), keyed(one)
    assert claims(one) == []
    one.settle_one(running, "complete")
    assert claims(one, "elsewhere") == []
    assert [hold(one, each) for each in (first, second)] == [None, "key"]

    with two.transaction():
        two.ahead(hours=1)
        assert two.expire_ttl() == [{"expire_ttl": 1}]
        assert claims(one) == []

    assert claims(one) == [second]


def test_paused_queue_does_not_keep_the_slot_of_a_key(running: Row, one: Session) -> None:
    paused, waiting = keyed(one, queue="paused", priority=1), keyed(one)
    assert claims(one, "paused", "q") == []
    one.pause_queue(queue="paused")
    one.settle_one(running, "complete")

    assert claims(one, "paused", "q") == [waiting]
    one.resume_queue(queue="paused")
    assert claims(one, "paused", "q") == []
    assert hold(one, paused) == "key"
    one.settle_one({"job_id": waiting, "attempt_id": _fence(one, waiting)}, "complete")
    assert claims(one, "paused", "q") == [paused]
