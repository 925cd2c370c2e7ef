"""What is counted of the answers of the database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.claimed import claimed_job
from taskq_sync.model import Settled, Verdict
from taskq_sync.worker import events as of
from taskq_sync.worker.events import Events
from taskq_sync.worker.summary import COUNTS, Summary
from taskq_sync.worker.verdicts import not_started

COMPLETE = Verdict.complete(7, 70)
FAIL = Verdict.fail(7, 70, error="boom")
SNOOZE = Verdict.snooze(7, 70, delay=timedelta(1))
RELEASE = Verdict.release(7, 70, cause="worker_shutdown")
NOT_STARTED = not_started(claimed_job(job_id=7, attempt_id=70))


class Bench:
    """A summary and the events it observes."""

    def __init__(self) -> None:
        self.events = Events()
        self.summary = Summary("w")
        self.summary.observe(self.events)

    def settle(self, verdict: Verdict, result: str, status: str | None) -> None:
        answer = Settled(verdict.job_id, verdict.attempt_id, result, status, None, None)
        self.events.emit(of.AttemptsSettled(verdicts=[verdict], answers=[answer], seconds=0.0))

    @property
    def counts(self) -> dict[str, object]:
        facts = self.summary.facts()
        return {name: facts[name] for name in (*COUNTS, "failing") if facts[name]}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_queues_that_are_paused_last_are_shown(bench: Bench) -> None:
    assert bench.summary.facts()["paused"] == []
    bench.events.emit(of.QueuesPaused(queues=("a", "b")))
    bench.events.emit(of.QueuesPaused(queues=("b",), resumed=("a",)))
    assert bench.summary.facts()["paused"] == ["b"]


@pytest.mark.parametrize(
    ("verdict", "result", "status", "counts"),
    [
        (COMPLETE, "ok", "succeeded", {"succeeded": 1}),
        (COMPLETE, "already_settled", "succeeded", {"succeeded": 1}),
        (COMPLETE, "lost", None, {"lost": 1}),
        (COMPLETE, "rejected", None, {}),
        (FAIL, "retry_scheduled", "queued", {"retried": 1, "failing": 1}),
        (FAIL, "dead", "failed", {"failed": 1, "failing": 1}),
        (FAIL, "already_settled", "queued", {"retried": 1, "failing": 1}),
        (FAIL, "ok", "cancelled", {"cancelled": 1}),  # an operator was quicker
        (FAIL, "settle_conflict", "succeeded", {"succeeded": 1}),  # its own transaction was
        (SNOOZE, "ok", "queued", {"snoozed": 1}),
        (RELEASE, "ok", "queued", {"released": 1}),
        (NOT_STARTED, "ok", "queued", {}),
        (NOT_STARTED, "lost", None, {}),
    ],
    ids=lambda each: each.verb if isinstance(each, Verdict) else None,
)
def test_counts_an_answer(
    bench: Bench, verdict: Verdict, result: str, status: str | None, counts: dict[str, int]
) -> None:
    bench.settle(verdict, result, status)
    assert bench.counts == counts


@pytest.mark.parametrize(
    ("verdict", "status", "failing"),
    [(COMPLETE, "succeeded", 0), (SNOOZE, "queued", 0), (RELEASE, "queued", 1)],
)
def test_a_job_recovers_by_a_later_attempt_that_did_not_fail(
    bench: Bench, verdict: Verdict, status: str, failing: int
) -> None:
    bench.settle(FAIL, "retry_scheduled", "queued")
    bench.settle(verdict, "ok", status)
    assert bench.summary.failing == failing


def test_counts_what_no_database_took(bench: Bench) -> None:
    job = claimed_job()
    refused = {"job": job, "verb": "fail", "result": "rejected", "reason": None}
    bench.events.emit(of.VerdictRefused(**refused, consequence="fail instead"))
    assert bench.counts == {}
    bench.events.emit(of.VerdictRefused(**refused, consequence=of.LEFT_TO_ITS_LEASE))
    bench.events.emit(of.VerdictsUndelivered(count=2))
    assert bench.counts == {"undelivered": 3}


def test_the_first_reason_to_end_is_the_reason(bench: Bench) -> None:
    for before, after, reason in (
        ("starting", "running", "started"),
        ("running", "stopping", "SIGTERM"),
        ("stopping", "stopped", "drained"),
    ):
        bench.events.emit(of.StateChanged(before=before, after=after, reason=reason))
    assert bench.summary.facts()["reason"] == "SIGTERM"
