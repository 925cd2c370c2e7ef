"""The link breaks at the one moment at which nobody can tell: after a statement was sent, before its answer."""

from __future__ import annotations

import pytest

from faults.lab import LEASE, RECOVERY, SLACK, Lab
from faults.proxy import Proxy, Trap

#: Ways for the link to break, and whether the statement arrives.
MOMENTS = ["before", "after"]


def cut(proxy: Proxy, moment: str, act: str, part: str) -> Trap:
    """Break the link of *part* at its next statement that does *act*."""
    return proxy.cut_after(act, part=part) if moment == "after" else proxy.cut_before(act, part=part)


@pytest.mark.parametrize("moment", MOMENTS)
def test_claim_whose_answer_is_lost_costs_a_lease_at_most(lab: Lab, moment: str) -> None:
    # B24
    proxy = lab.proxy()
    lab.worker(dsn=proxy.dsn)
    lab.may_be_unstarted = 1
    trap = cut(proxy, moment, "claim", "-claimer")
    job = lab.enqueue("nap")
    lab.wait_until_ended(job, timeout=RECOVERY + SLACK)

    assert trap.sprung
    assert len(lab.starts(job)) == 1
    lost = ["take_back"] if moment == "after" else []
    assert [each["verb"] for each in lab.history(job)] == [*lost, "complete"]


def test_settle_whose_answer_is_lost_is_sent_again_and_counts_once(lab: Lab) -> None:
    # B24
    proxy = lab.proxy()
    worker = lab.worker(dsn=proxy.dsn)
    for moment in MOMENTS:
        trap = cut(proxy, moment, "settle", "-settler")
        jobs = [lab.enqueue("nap"), *(lab.enqueue("stumble", max_attempts=limit) for limit in (1, 2))]
        lab.wait_until_ended(*jobs, timeout=LEASE + SLACK)

        assert trap.sprung
        assert [len(lab.starts(job)) for job in jobs] == [1, 1, 2]
        assert [status for status, _ in lab.outcomes(*jobs)] == ["succeeded", "failed", "succeeded"]
    assert not worker.lines("lost|refused|conflict")


def test_beat_whose_answer_is_lost_is_repeated(lab: Lab) -> None:
    # B24
    proxy = lab.proxy()
    lab.worker(dsn=proxy.dsn)
    job = lab.enqueue("nap", {"seconds": 2 * LEASE})
    traps = [cut(proxy, moment, "heartbeat", "-heartbeat") for moment in MOMENTS]
    lab.wait_until_ended(job, timeout=2 * LEASE + SLACK)

    assert all(trap.sprung for trap in traps)
    assert len(lab.starts(job)) == 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_commit_of_a_handler_s_transaction_is_never_replayed(lab: Lab, moment: str) -> None:
    # B24
    proxy = lab.proxy()
    lab.sql.run("create table effects (job_id bigint, fence bigint)")
    lab.worker(dsn=proxy.dsn)
    trap = cut(proxy, moment, "commit", "-transaction")
    job = lab.enqueue("transact")
    lab.wait_until_ended(job, timeout=LEASE + SLACK)

    assert trap.sprung
    assert lab.outcomes(job) == [("succeeded", "success")]
    assert lab.sql.value("select count(*) from effects") == 1
    found = lab.job(job)
    assert lab.sql.value("select fence from effects") == found["result"]["fence"]
    if moment == "after":  # it had arrived
        assert [each["verb"] for each in lab.history(job)] == ["complete"]
    else:  # nobody could know: the attempt failed, and the next one did the work
        first, second = lab.history(job)
        assert (first["verb"], second["verb"]) == ("fail", "complete")
        assert first["error"].startswith("commit_unknown")
        assert found["failure_count"] == 1


def test_link_that_is_cut_at_every_kind_of_statement_in_turn_loses_nothing(lab: Lab) -> None:
    # B24, B13
    proxy = lab.proxy()
    worker = lab.worker(dsn=proxy.dsn)
    lab.may_be_unstarted = 100
    traps = [
        cut(proxy, moment, act, "")
        for act in (
            "claim",
            "poll_hint",
            "settle",
            "heartbeat",
            "sleep_until",
            "take_back",
            "announce",
            "prune",
        )
        for moment in MOMENTS
    ]
    jobs = lab.enqueue_many(
        lab.count(200, short=40), "nap", {"seconds": 0.05, "again": 0.05}, max_attempts=50
    )
    lab.wait_until_ended(*jobs, timeout=60)

    assert sum(trap.sprung for trap in traps) >= 8
    assert worker.code is None


def test_slow_link_makes_everything_slow_and_nothing_wrong(lab: Lab) -> None:
    # B02
    proxy = lab.proxy()
    worker = lab.worker(dsn=proxy.dsn)
    proxy.delay = 0.15  # 0.3 s for each call
    jobs = lab.enqueue_many(8, "nap", {"seconds": LEASE / 2})
    lab.wait_until_ended(*jobs, timeout=4 * LEASE + SLACK)
    proxy.delay = 0.0

    assert [len(lab.starts(job)) for job in jobs] == [1] * 8
    assert not worker.lines("degraded|doubt|lost")


def test_link_that_is_dead_without_a_word_is_given_up_in_time(lab: Lab) -> None:
    # B13
    for how in ("black_hole", "half_open")[: lab.count(2, short=1)]:
        proxy = lab.proxy()
        worker = lab.worker(dsn=proxy.dsn)
        job = lab.enqueue("nap", {"seconds": 1.5 * LEASE, "again": 0})
        lab.wait_for_starts(job)
        for link in proxy.links(worker.worker_id[-20:]):
            getattr(link, how)()
        lab.wait_until_ended(job, timeout=3 * LEASE + SLACK)
        later = lab.enqueue("nap")
        lab.wait_until_ended(later, timeout=10 + SLACK)

        assert len(worker.lines("running -> degraded")) <= 3  # each part finds out for itself
        assert lab.job(job)["failure_count"] == 0
        for link in proxy.links(""):
            link.reset()
        lab.end_sessions(worker.worker_id[-20:])
        assert lab.stop(worker) == 0
