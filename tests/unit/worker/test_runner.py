"""One attempt in a slot: what comes before the handler, and what keeps its verdict back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kit.claimed import claimed_job
from taskq_sync import TaskQ
from taskq_sync.clock import monotonic
from taskq_sync.model import Verdict
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.events import Events
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.pauses import Pauses
from taskq_sync.worker.runner import Runner


class Bench:
    """A runner of one task, and the verdicts that it hands over."""

    def __init__(self) -> None:
        self.tq = TaskQ("host=nowhere")
        self.called: list[int] = []
        self.tq.task(name="mail.welcome")(self.handler)
        self.verdicts: list[Verdict] = []
        self.attempts = Attempts()
        events = Events()
        self.lifecycle = Lifecycle(events)
        self.lifecycle.ready()
        self.pauses = Pauses(events)
        self.runner = Runner(
            registry=self.tq.registry,
            attempts=self.attempts,
            settle=lambda attempt, verdict: self.verdicts.append(verdict),
            transactions=cast(Any, None),
            pauses=self.pauses,
            lifecycle=self.lifecycle,
            events=events,
        )
        self.during: list[LiveAttempt] = []

    def handler(self) -> str:
        self.called.append(1)
        for attempt in self.during:
            attempt.given_up = True
        return "done"

    def take(self, **job: object) -> LiveAttempt:
        attempt = LiveAttempt(claimed_job(**job), sent_at=monotonic())
        self.attempts.add([attempt])
        assert attempt.take()
        return attempt


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_runs_the_handler_and_hands_its_verdict_over(bench: Bench) -> None:
    attempt = bench.take()
    bench.runner.run(attempt)
    [verdict] = bench.verdicts
    assert (verdict.verb, dict(verdict.members)) == ("complete", {"result": '"done"'})
    assert attempt.stage is Stage.ENDED


def test_a_job_that_a_slot_takes_while_the_worker_stops_goes_back(bench: Bench) -> None:
    bench.lifecycle.stop("SIGTERM")
    bench.runner.run(bench.take())
    [verdict] = bench.verdicts
    assert (verdict.verb, verdict.members["cause"]) == ("release", '"not_started"')
    assert bench.called == []


def test_a_job_of_a_paused_queue_goes_back(bench: Bench) -> None:
    bench.pauses.update(["mail"], asked_at=1.0)
    bench.runner.run(bench.take())
    [verdict] = bench.verdicts
    assert (verdict.verb, verdict.members["cause"]) == ("release", '"not_started"')
    assert bench.called == []


def test_a_job_cancelled_before_its_start_is_not_run(bench: Bench) -> None:
    attempt = bench.take()
    attempt.cancel_requested = True
    bench.runner.run(attempt)
    assert [verdict.verb for verdict in bench.verdicts] == ["cancel"]
    assert bench.called == []


def test_a_handler_that_ends_after_the_worker_gave_it_up_has_no_verdict(bench: Bench) -> None:
    attempt = bench.take()
    bench.during.append(attempt)
    bench.runner.run(attempt)
    assert bench.called == [1]
    assert bench.verdicts == []


def test_a_defect_of_the_library_is_a_failure_of_the_attempt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise MemoryError

    monkeypatch.setattr(bench.tq.registry, "find", broken)
    bench.runner.run(bench.take())
    [verdict] = bench.verdicts
    assert (verdict.verb, verdict.members["error"]) == ("fail", '"MemoryError"')
