"""Attempts and their registry: who takes one, when its lease is doubtful, when the next beat is due."""

from __future__ import annotations

import math
import threading
from datetime import timedelta

import pytest

from kit.claimed import claimed_job
from taskq_sync.clock import monotonic
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.lease import beat_of


def attempt(
    fence: int = 70, *, sent_at: float | None = None, lease: float = 60.0, **job: object
) -> LiveAttempt:
    claimed = claimed_job(attempt_id=fence, lease=timedelta(seconds=lease), **job)
    return LiveAttempt(claimed, sent_at=monotonic() if sent_at is None else sent_at)


@pytest.mark.parametrize(
    ("lease", "beat"), [(0.3, 0.1), (3.0, 1.0), (60.0, 20.0), (90.0, 30.0), (86_400.0, 30.0)]
)
def test_a_lease_is_beaten_three_times_but_at_least_every_half_minute(lease: float, beat: float) -> None:
    assert beat_of(lease) == pytest.approx(beat)


@pytest.mark.parametrize(("lease", "beat"), [(60.0, 25.0), (60.0, 0.5)])
def test_a_configured_beat_counts_below_half_of_the_lease(lease: float, beat: float) -> None:
    assert beat_of(lease, beat) == beat


def test_a_configured_beat_does_not_cost_a_job_with_a_shorter_lease() -> None:
    assert beat_of(3.0, configured=25.0) == 1.0


@pytest.mark.parametrize(("lease", "margin"), [(0.1, 0.05), (0.5, 0.05), (2.0, 0.2), (60.0, 6.0)])
def test_the_local_deadline_comes_a_tenth_or_50_ms_before_the_end(lease: float, margin: float) -> None:
    assert attempt(sent_at=1000.0, lease=lease).deadline == pytest.approx(1000.0 + lease - margin)


def test_an_attempt_is_doubtful_from_its_deadline_on_and_a_beat_heals_it() -> None:
    live = attempt(sent_at=monotonic() - 54.1)
    assert live.doubtful
    live.renewed(monotonic())
    assert not live.doubtful


def test_a_lost_attempt_stays_doubtful() -> None:
    live = attempt()
    live.lost = True
    live.renewed(monotonic())
    assert live.doubtful


def test_exactly_one_of_many_threads_takes_an_attempt() -> None:
    live = attempt()
    start = threading.Barrier(8)
    taken: list[bool] = []

    def race() -> None:
        start.wait()
        taken.append(live.take())

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]
    assert live.stage is Stage.RUNNING


@pytest.mark.parametrize(
    "job", [{"concurrency_key": "k"}, {"expiry_streak": 1}, {"failure_count": 4, "max_attempts": 5}]
)
def test_keyed_jobs_suspects_and_last_attempts_are_not_buffered(job: dict[str, object]) -> None:
    assert attempt(**job).unbuffered


def test_an_ordinary_job_may_wait() -> None:
    assert not attempt(failure_count=3, max_attempts=5).unbuffered


def test_a_checkpoint_is_unsent_until_the_same_one_was_stored() -> None:
    live = attempt()
    live.checkpoint = '{"n":1}'
    sent = live.unsent_checkpoint
    live.checkpoint = '{"n":2}'
    live.stored_checkpoint = sent
    assert live.unsent_checkpoint == '{"n":2}'
    live.stored_checkpoint = live.checkpoint
    assert live.unsent_checkpoint is None


def test_without_attempts_no_beat_is_due() -> None:
    assert Attempts().plan_beat() == math.inf


def test_the_next_beat_is_that_of_the_attempt_that_needs_it_first() -> None:
    attempts = Attempts()
    attempts.add([attempt(1, sent_at=100.0, lease=60.0), attempt(2, sent_at=105.0, lease=3.0)])
    assert attempts.plan_beat() == pytest.approx(106.0)
    attempts.remove([2, 99])
    assert attempts.plan_beat() == pytest.approx(120.0)


def test_an_attempt_that_needs_an_earlier_beat_says_so() -> None:
    attempts = Attempts()
    attempts.add([attempt(1, sent_at=100.0, lease=60.0)])
    attempts.plan_beat()
    attempts.beat_wanted.clear()
    attempts.add([attempt(2, sent_at=101.0, lease=60.0)])
    assert not attempts.beat_wanted.is_set()
    attempts.add([attempt(3, sent_at=101.0, lease=3.0)])
    assert attempts.beat_wanted.is_set()


def test_the_registry_finds_by_fence_and_lists_the_oldest_first() -> None:
    attempts = Attempts()
    first, second = attempt(1), attempt(2)
    attempts.add([first, second])
    assert attempts.get(2) is second
    assert attempts.held() == [first, second]
    attempts.remove([1])
    assert len(attempts) == 1
    assert attempts.get(1) is None
