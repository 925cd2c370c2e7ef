"""What the answers to a beat mean; canned answers, no database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from kit.claimed import claimed_job
from kit.waiting import PATIENCE
from taskq_sync.clock import monotonic
from taskq_sync.model import Beat
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.beat_answers import BeatAnswers
from taskq_sync.worker.beat_call import BeatCall
from taskq_sync.worker.events import Events, LeaseWasLost
from taskq_sync.worker.heartbeat import Heartbeat
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.link import Link


class CannedJobs:
    """Answers each beat with `state`, and counts the beats."""

    def __init__(self) -> None:
        self.state = "ok"
        self.beats: list[list[int]] = []
        self.beaten = threading.Event()
        self.meanwhile: Callable[[], None] = lambda: None

    def heartbeat(
        self, ex: object, worker_id: str, attempts: Sequence[tuple[int, int]], **given: object
    ) -> list[Beat]:
        self.meanwhile()
        self.beats.append([fence for _, fence in attempts])
        return [Beat(job_id, fence, self.state, False, None, None) for job_id, fence in attempts]


class CannedLink(Link):
    """Calls without a session."""

    def __init__(self) -> None:
        super().__init__("heartbeat", cast(Any, None), None)

    def call(self, work: Any, *, timeout: float | None = None) -> Any:
        return work(None)


class Bench:
    def __init__(self) -> None:
        self.jobs = CannedJobs()
        self.attempts = Attempts()
        self.lost: list[int] = []
        events = Events()
        events.subscribe(LeaseWasLost, lambda event: self.lost.append(event.job.attempt_id))
        self.ended: list[BaseException | None] = []
        self.heartbeat = Heartbeat(
            name="test-heartbeat",
            call=BeatCall(CannedLink(), cast(Any, self.jobs), "w"),
            attempts=self.attempts,
            answers=BeatAnswers(self.attempts, events),
            events=events,
            lifecycle=Lifecycle(events),
            ended=lambda name, error: self.ended.append(error),
        )

    def hold(self, fence: int, stage: Stage | None) -> LiveAttempt:
        """Hold an attempt whose beat is due, in a stage; None = waiting for a slot."""
        attempt = LiveAttempt(claimed_job(attempt_id=fence, job_id=fence), sent_at=monotonic() - 30)
        if stage is not None:
            attempt.take(stage)
        self.attempts.add([attempt])
        return attempt

    def beat(self) -> None:
        """Let the thread make exactly the beats that are due."""
        self.jobs.meanwhile = self.jobs.beaten.set
        self.heartbeat.start()
        assert self.jobs.beaten.wait(PATIENCE)
        self.heartbeat.stop()
        assert self.heartbeat.join(PATIENCE)
        assert self.ended == [None]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.heartbeat.stop()


def test_one_call_beats_everything_that_is_held(bench: Bench) -> None:
    stages = [None, Stage.RUNNING, Stage.SETTLING, Stage.ENDED]
    held = [bench.hold(fence, stage) for fence, stage in enumerate(stages, start=1)]
    bench.beat()
    assert bench.jobs.beats[0] == [1, 2, 3, 4]
    assert all(attempt.deadline > monotonic() + 50 for attempt in held)


def test_a_lost_attempt_is_told_and_beaten_no_more(bench: Bench) -> None:
    running = bench.hold(1, Stage.RUNNING)
    bench.jobs.state = "lost"
    bench.beat()
    assert running.lost
    assert bench.lost == [1]
    assert bench.attempts.plan_beat() > monotonic() + 3600


def test_a_lost_attempt_that_waits_for_a_slot_is_never_started(bench: Bench) -> None:
    waiting = bench.hold(1, None)
    bench.jobs.state = "lost"
    bench.beat()
    assert not waiting.take()
    assert len(bench.attempts) == 0
    assert bench.lost == [1]


@pytest.mark.parametrize("stage", [Stage.SETTLING, Stage.ENDED])
def test_what_was_settled_while_the_beat_was_under_way_is_not_lost(bench: Bench, stage: Stage) -> None:
    attempt = bench.hold(1, stage)
    bench.jobs.state = "lost"
    bench.beat()
    assert not attempt.lost
    assert bench.lost == []


def test_a_busy_row_is_asked_about_again_soon(bench: Bench) -> None:
    attempt = bench.hold(1, Stage.RUNNING)
    before = attempt.deadline
    bench.jobs.state = "busy"
    bench.beat()
    assert attempt.deadline == before
    assert attempt.beat_at - monotonic() <= 1.0
    assert not attempt.lost


def test_sends_nothing_while_nothing_is_held(bench: Bench) -> None:
    bench.heartbeat.start()
    bench.heartbeat.stop()
    assert bench.heartbeat.join(PATIENCE)
    assert bench.jobs.beats == []
