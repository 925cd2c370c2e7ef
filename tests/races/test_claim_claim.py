"""Two claims: no job goes to both, none waits for the other, and a key never has more jobs than its limit."""

# Scenario B40.

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait

from races.sessions import Session, ids


def test_claim_takes_other_jobs_than_an_open_claim_without_waiting(one: Session, impatient: Session) -> None:
    jobs = [one.new_job() for _ in range(5)]

    with one.transaction():
        first = one.claim(queues=["q"], worker_id="w1", limit=2)
        second = impatient.claim(queues=["q"], worker_id="w2", limit=10)
        third = impatient.claim(queues=["q"], worker_id="w2", limit=10)

    assert (ids(first), ids(second), third) == (jobs[:2], jobs[2:], [])


def test_job_of_a_claim_that_rolled_back_is_claimed_with_a_greater_fence(one: Session, two: Session) -> None:
    job_id = one.new_job()

    with one.transaction(rolls_back=True):
        [undone] = one.claim(queues=["q"], worker_id="w1")
        assert two.claim(queues=["q"], worker_id="w2") == []
    [claimed] = two.claim(queues=["q"], worker_id="w2")

    assert claimed["job_id"] == undone["job_id"] == job_id
    assert claimed["attempt_id"] > undone["attempt_id"]
    assert claimed["attempt_count"] == undone["attempt_count"] == 1


def test_claims_that_start_together_share_the_jobs(
    one: Session, open_session: Callable[..., Session]
) -> None:
    jobs = [one.new_job(priority=number % 3) for number in range(40)]
    claimers = [open_session() for _ in range(8)]

    with one.table_locked("ready", "access exclusive"):
        answers = [each.waiting("claim", queues=["q"], worker_id="w", limit=5) for each in claimers]
    wait(answers)
    claimed = [job_id for answer in answers for job_id in ids(answer.result())]
    claimed += ids(one.claim(queues=["q"], worker_id="w", limit=100))

    assert sorted(claimed) == jobs


def test_key_that_another_claim_holds_is_passed_over_and_not_put_on_hold(
    one: Session, impatient: Session
) -> None:
    first, second = one.new_job(concurrency_key="k"), one.new_job(concurrency_key="k")
    free = one.new_job()

    with one.transaction(rolls_back=True):
        assert ids(one.claim(queues=["q"], worker_id="w1")) == [first]
        assert ids(impatient.claim(queues=["q"], worker_id="w2", limit=10)) == [free]

    assert [one.job(each)["hold"] for each in (first, second)] == [None, None]
    assert ids(impatient.claim(queues=["q"], worker_id="w2", limit=10)) == [first]


def test_second_claim_counts_what_the_first_has_committed(one: Session, two: Session) -> None:
    first, second = one.new_job(concurrency_key="k"), one.new_job(concurrency_key="k")

    with one.table_locked("ready", "access exclusive"):
        answer = two.waiting("claim", queues=["q"], worker_id="w2", limit=10)
        # past the lock of this table, the transaction's own claim commits before the other begins to look
        assert ids(one.claim(queues=["q"], worker_id="w1", limit=1)) == [first]

    assert answer.result() == []
    # At its commit the first may let go of the table before the key: then the second has passed the job over.
    assert two.claim(queues=["q"], worker_id="w2", limit=10) == []
    assert one.job(second)["hold"] == "key"


def test_claims_that_start_together_never_pass_the_limit_of_a_key(
    one: Session, open_session: Callable[..., Session]
) -> None:
    one.set_concurrency_limit(key="k", max_running=3)
    jobs = [one.new_job(concurrency_key="k") for _ in range(20)]
    claimers = [open_session() for _ in range(8)]

    claimed: list[int] = []
    for _ in range(3):
        with one.table_locked("ready", "access exclusive"):
            answers = [each.waiting("claim", queues=["q"], worker_id="w", limit=2) for each in claimers]
        wait(answers)
        claimed += [job_id for answer in answers for job_id in ids(answer.result())]
        assert one.value("select count(*) from taskq.running") == len(claimed) <= 3
    claimed += ids(one.claim(queues=["q"], worker_id="w", limit=20))

    assert len(claimed) == 3
    assert set(claimed) < set(jobs)
