"""A row that somebody keeps locked: what serves all jobs of a worker or of the schema goes round it, at once."""

# Scenario B23.

from __future__ import annotations

import pytest

from races.sessions import Session, beat, ids, settlement


def test_beat_answers_busy_for_it_and_ok_for_the_others(one: Session, impatient: Session) -> None:
    attempts = [one.new_attempt() for _ in range(3)]

    with one.transaction():
        one.row_locked_by_hand("running", attempts[1]["job_id"])
        rows = impatient.heartbeat(**beat(*attempts))

    assert [row["state"] for row in rows] == ["ok", "busy", "ok"]
    assert [row["state"] for row in impatient.heartbeat(**beat(*attempts))] == ["ok", "ok", "ok"]


def test_take_back_takes_the_others(one: Session, impatient: Session) -> None:
    jobs = [one.new_attempt()["job_id"] for _ in range(3)]
    one.run_out(*jobs)

    with one.transaction():
        one.row_locked_by_hand("running", jobs[1])
        assert ids(impatient.take_back()) == [jobs[0], jobs[2]]

    assert ids(impatient.take_back()) == [jobs[1]]


def test_take_back_with_a_limit_does_not_spend_it_on_the_locked(one: Session, impatient: Session) -> None:
    jobs = [one.new_attempt()["job_id"] for _ in range(3)]
    one.run_out(*jobs)

    with one.transaction():
        one.row_locked_by_hand("running", jobs[0])
        assert ids(impatient.take_back(limit=1)) == [jobs[1]]


def test_claim_takes_the_others(one: Session, impatient: Session) -> None:
    jobs = [one.new_job() for _ in range(3)]

    with one.transaction():
        one.row_locked_by_hand("ready", jobs[0])
        assert ids(impatient.claim(queues=["q"], worker_id="w", limit=1)) == [jobs[1]]
        assert ids(impatient.claim(queues=["q"], worker_id="w", limit=5)) == [jobs[2]]


def test_poll_hint_says_ready_for_a_due_job_that_is_locked(one: Session, impatient: Session) -> None:
    job_id = one.new_job()

    with one.transaction():
        one.row_locked_by_hand("ready", job_id)
        assert impatient.claim(queues=["q"], worker_id="w") == []
        assert impatient.poll_hint(queues=["q"])[0]["state"] == "ready"


@pytest.mark.usefixtures("clocks")
def test_expiry_ends_the_others(one: Session, impatient: Session) -> None:
    jobs = [one.new_job(ttl="1 min") for _ in range(3)]
    impatient.ahead(hours=1)

    with one.transaction():
        one.row_locked_by_hand("ready", jobs[1])
        assert impatient.expire_ttl() == [{"expire_ttl": 2}]

    assert impatient.expire_ttl() == [{"expire_ttl": 1}]


def test_prune_deletes_the_others(one: Session, impatient: Session) -> None:
    attempts = [one.new_attempt() for _ in range(3)]
    one.settle(**settlement(*attempts, verb="complete"))
    one.run("update taskq.finished set purge_at = taskq.clock()")

    with one.transaction():
        one.row_locked_by_hand("finished", attempts[1]["job_id"])
        assert impatient.prune() == [{"prune": 2}]

    assert impatient.prune() == [{"prune": 1}]


@pytest.mark.usefixtures("clocks")
def test_expiry_and_prune_with_a_limit_do_not_spend_it_on_the_locked(
    one: Session, impatient: Session
) -> None:
    attempts = [one.new_attempt(), one.new_attempt()]
    one.settle(**settlement(*attempts, verb="complete"))
    one.run("update taskq.finished set purge_at = taskq.clock()")
    jobs = [one.new_job(ttl="1 min"), one.new_job(ttl="2 min")]
    impatient.ahead(hours=1)

    with one.transaction():
        one.row_locked_by_hand("ready", jobs[0])
        one.row_locked_by_hand("finished", attempts[0]["job_id"])
        assert impatient.expire_ttl(limit=1) == [{"expire_ttl": 1}]
        assert impatient.prune(limit=1) == [{"prune": 1}]


def test_housekeeping_in_one_call_goes_round_it(one: Session, impatient: Session) -> None:
    jobs = [one.new_attempt()["job_id"] for _ in range(3)]
    one.run_out(*jobs)

    with one.transaction():
        one.row_locked_by_hand("running", jobs[1])
        assert impatient.housekeep() == [{"taken_back": 2, "expired": 0, "pruned": 0, "raised": 0}]


def test_enqueue_and_readers_do_not_notice_it(one: Session, impatient: Session) -> None:
    running, queued = one.new_attempt()["job_id"], one.new_job()

    with one.transaction():
        one.row_locked_by_hand("running", running)
        one.row_locked_by_hand("ready", queued)
        assert impatient.enqueue(queue="q", task="t")[0]["status"] == "created"
        assert [impatient.job(each)["status"] for each in (running, queued)] == ["running", "queued"]
        assert len(impatient.list_jobs()) == 3
        assert impatient.queue_stats(queue="q")[0]["running"] == 1


def test_open_handler_transaction_stops_neither_its_worker_s_beat_nor_the_recovery_of_others(
    one: Session, impatient: Session
) -> None:
    """A handler that has completed as its last statement, and is slow to commit."""
    attempt, other = one.new_attempt(), one.new_attempt()
    one.run_out(attempt["job_id"], other["job_id"])

    with one.transaction():
        one.settle_one(attempt, "complete")
        assert ids(impatient.take_back()) == [other["job_id"]]
        assert impatient.heartbeat(**beat(attempt))[0]["state"] == "busy"
        assert impatient.claim(queues=["q"], worker_id="w")[0]["job_id"] == other["job_id"]

    assert one.job(attempt["job_id"])["status"] == "succeeded"


def test_checkpoint_of_a_busy_row_is_not_stored_and_the_row_says_so(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction(rolls_back=True):
        one.row_locked_by_hand("running", attempt["job_id"])
        [row] = impatient.heartbeat(**beat(attempt), progress={str(attempt["job_id"]): {"step": 1}})

    assert (row["state"], row["progress_stored"]) == ("busy", False)
    assert one.job(attempt["job_id"])["progress"] is None


def test_busy_beat_still_delivers_a_cancel_request(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()
    one.cancel_job(job_id=attempt["job_id"])

    with one.transaction(rolls_back=True):
        one.row_locked_by_hand("running", attempt["job_id"])
        [row] = impatient.heartbeat(**beat(attempt))

    assert (row["state"], row["cancel_requested"]) == ("busy", True)


def test_enqueue_and_settle_do_not_wait_for_an_open_pause(one: Session, impatient: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        one.pause_queue(queue="q")
        assert impatient.enqueue(queue="q", task="t")[0]["status"] == "created"
        assert impatient.settle_one(attempt, "complete")["result"] == "ok"
