"""The five states, and how the main thread hears of a wish to stop."""

from __future__ import annotations

import signal
import threading

import pytest

from taskq_sync.clock import Deadline
from taskq_sync.worker.events import Events, StateChanged
from taskq_sync.worker.lifecycle import Lifecycle, State


@pytest.fixture
def seen() -> list[tuple[str, str, str]]:
    return []


@pytest.fixture
def lifecycle(seen: list[tuple[str, str, str]]) -> Lifecycle:
    events = Events()
    events.subscribe(StateChanged, lambda event: seen.append((event.before, event.after, event.reason)))
    return Lifecycle(events)


def test_claims_only_while_running(lifecycle: Lifecycle) -> None:
    assert not lifecycle.may_claim
    lifecycle.ready()
    assert lifecycle.may_claim
    lifecycle.ail("claimer", "connection refused")
    assert not lifecycle.may_claim
    lifecycle.recover("claimer")
    assert lifecycle.may_claim
    lifecycle.stop("SIGTERM")
    assert not lifecycle.may_claim


def test_tells_each_change_of_state_once(lifecycle: Lifecycle, seen: list[tuple[str, str, str]]) -> None:
    lifecycle.ready()
    for _ in range(3):
        lifecycle.ail("claimer", "connection refused")
    lifecycle.ail("settler", "connection refused")
    lifecycle.recover("claimer")
    lifecycle.recover("settler")
    lifecycle.recover("settler")
    lifecycle.stop("SIGTERM")
    lifecycle.stopped("drained")
    assert seen == [
        ("starting", "running", "started"),
        ("running", "degraded", "claimer: connection refused"),
        ("degraded", "running", "the database answers again"),
        ("running", "stopping", "SIGTERM"),
        ("stopping", "stopped", "drained"),
    ]


def test_stays_degraded_until_every_part_has_recovered(lifecycle: Lifecycle) -> None:
    lifecycle.ready()
    lifecycle.ail("claimer", "gone")
    lifecycle.ail("heartbeat", "gone")
    lifecycle.recover("claimer")
    assert lifecycle.state is State.DEGRADED
    lifecycle.recover("heartbeat")
    assert lifecycle.state is State.RUNNING


def test_an_outage_does_not_lead_back_from_stopping(lifecycle: Lifecycle) -> None:
    lifecycle.ready()
    lifecycle.stop("SIGTERM")
    lifecycle.ail("settler", "gone")
    lifecycle.recover("settler")
    lifecycle.ready()
    assert lifecycle.state is State.STOPPING


def test_a_part_that_ails_before_the_start_is_over_makes_it_degraded(lifecycle: Lifecycle) -> None:
    lifecycle.ail("claimer", "gone")
    lifecycle.ready()
    assert lifecycle.state is State.DEGRADED


def test_watchers_are_told_after_the_change(lifecycle: Lifecycle) -> None:
    states: list[State] = []
    lifecycle.watch(lambda: states.append(lifecycle.state))
    lifecycle.ready()
    lifecycle.stop("SIGTERM")
    assert states == [State.RUNNING, State.STOPPING]


def test_the_main_thread_hears_a_request_from_another_thread(lifecycle: Lifecycle) -> None:
    thread = threading.Thread(target=lambda: lifecycle.request_stop("drained"))
    thread.start()
    request = lifecycle.wait(Deadline.after(30))
    thread.join()
    assert request is not None
    assert request.reason == "drained"
    assert not request.insistent


def test_the_main_thread_hears_a_request_made_by_a_signal_handler(lifecycle: Lifecycle) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: lifecycle.request_stop("SIGUSR1", insistent=True))
    try:
        timer = threading.Thread(
            target=lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        )
        timer.start()
        request = lifecycle.wait(Deadline.after(30))
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert request is not None
    assert request.insistent


def test_waiting_ends_at_the_deadline(lifecycle: Lifecycle) -> None:
    assert lifecycle.wait(Deadline.after(0.01)) is None


def test_waiting_ends_when_its_condition_holds(lifecycle: Lifecycle) -> None:
    done = threading.Event()

    def finish() -> None:
        done.set()
        lifecycle.rouse()

    thread = threading.Thread(target=finish)
    thread.start()
    assert lifecycle.wait(Deadline.after(30), until=done.is_set) is None
    thread.join()


def test_a_request_goes_before_a_condition_that_does_not_hold_yet(lifecycle: Lifecycle) -> None:
    lifecycle.rouse()
    lifecycle.request_stop("SIGINT", insistent=True)
    request = lifecycle.wait(Deadline.after(30), until=lambda: False)
    assert request is not None
    assert request.reason == "SIGINT"


def test_handlers_are_told_to_end_only_when_the_waiting_is_over(lifecycle: Lifecycle) -> None:
    lifecycle.ready()
    lifecycle.stop("SIGTERM")
    assert not lifecycle.handlers_must_end
    lifecycle.end_handlers()
    assert lifecycle.handlers_must_end
