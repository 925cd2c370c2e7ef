"""Signals reach the main thread whichever thread of the process the system gives them to."""

# Scenario B70.

from __future__ import annotations

import signal
import threading
import time
from functools import partial

from taskq_sync.clock import Deadline
from taskq_sync.worker.events import Events
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.signals import Signals


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
