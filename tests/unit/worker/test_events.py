"""Who observes what."""

from __future__ import annotations

import sys

import pytest

from kit.claimed import claimed_job
from taskq_sync.errors import ConfigError
from taskq_sync.worker.events import Events, JobsClaimed, JobStarted, WorkerEvent


def test_observers_are_called_in_the_order_of_their_subscription() -> None:
    events, seen = Events(), []
    for number in range(3):
        events.subscribe(JobStarted, lambda event, number=number: seen.append(number))  # type: ignore[misc]
    events.emit(JobStarted(job=claimed_job()))
    assert seen == [0, 1, 2]


def test_an_observer_gets_its_kind_only() -> None:
    events, seen = Events(), []
    events.subscribe(JobStarted, seen.append)
    events.emit(JobsClaimed(count=1, seconds=0.1))
    assert seen == []
    assert not events.wanted(JobsClaimed)


def test_an_observer_of_all_gets_all() -> None:
    events, seen = Events(), []
    events.subscribe(WorkerEvent, seen.append)
    sent = [JobsClaimed(count=1, seconds=0.1), JobStarted(job=claimed_job())]
    for event in sent:
        events.emit(event)
    assert seen == sent


def test_one_that_would_end_the_process_does_not_end_a_part(caplog: pytest.LogCaptureFixture) -> None:
    events, seen = Events(), []
    events.subscribe(JobStarted, lambda event: sys.exit(7))
    events.subscribe(JobStarted, seen.append)
    events.emit(JobStarted(job=claimed_job()))
    assert len(seen) == 1
    assert "an observer of JobStarted failed" in caplog.text


def test_one_that_fails_is_reported_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    events, seen = Events(), []
    events.subscribe(JobStarted, lambda event: 1 / 0)  # type: ignore[arg-type, return-value]
    events.subscribe(JobStarted, seen.append)
    events.emit(JobStarted(job=claimed_job()))
    assert len(seen) == 1
    assert caplog.messages == ["an observer of JobStarted failed"]


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ConfigError, match="int is no event"):
        Events().subscribe(int, print)
