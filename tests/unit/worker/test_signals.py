"""Signals reach the main thread whichever thread of the process the system gives them to."""

# Scenario B70.

from __future__ import annotations

import signal
import threading
import time
from functools import partial

import pytest

from taskq_sync.clock import Deadline
from taskq_sync.worker import signals
from taskq_sync.worker.events import Events
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.signals import Echoes, Signals
from taskq_sync.worker.supervisor import Wakeups


def test_signal_that_another_thread_receives_wakes_the_main_thread() -> None:
    lifecycle = Lifecycle(Events())

    def receive() -> None:
        time.sleep(0.2)  # until the main thread waits; if it does not yet, the test is only easier
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    other = threading.Thread(target=receive)
    with Signals(partial(lifecycle.request_stop, insistent=True)):
        other.start()
        request = lifecycle.wait(Deadline.after(30.0))
        other.join()

    assert request is not None
    assert request.reason == "SIGTERM"


def test_same_signal_counts_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(signals, "monotonic", lambda: clock[0])
    echoes = Echoes(same_within=1.0)
    assert not echoes.is_echo(signal.SIGTERM)
    assert not echoes.is_echo(signal.SIGINT), "another signal is no echo"
    clock[0] = 100.9
    assert echoes.is_echo(signal.SIGTERM)
    clock[0] = 101.0
    assert not echoes.is_echo(signal.SIGTERM), "an echo does not put off the next one that counts"
    clock[0] = 101.9
    assert echoes.is_echo(signal.SIGTERM)


@pytest.mark.parametrize(("same_within", "heard"), [(3600.0, 1), (0.0, 2)])
def test_echo_of_a_signal_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, same_within: float, heard: int
) -> None:
    monkeypatch.setattr(signals, "SAME_WITHIN", same_within)
    received: list[str] = []
    with Signals(received.append):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert received == ["SIGTERM"] * heard


@pytest.mark.parametrize(("same_within", "heard"), [(3600.0, 1), (0.0, 2)])
def test_supervisor_does_not_hear_the_echo_of_a_signal(
    monkeypatch: pytest.MonkeyPatch, same_within: float, heard: int
) -> None:
    monkeypatch.setattr(signals, "SAME_WITHIN", same_within)
    stops = []
    with Wakeups() as wakeups:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        while (name := wakeups.take_stop()) is not None:
            stops.append(name)
    assert stops == ["SIGTERM"] * heard
