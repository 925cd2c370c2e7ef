"""SIGTERM and SIGINT as requests to stop.

Handlers are installed explicitly, so a worker that is PID 1 of a container hears them too: the kernel gives
such a process no default action.

One stop may arrive as two signals: GNU `timeout` signals its child, and then the process group that it shares with
it. So the same signal once more counts only after a while.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from taskq_sync.clock import monotonic
from taskq_sync.worker.threads import in_main_thread

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: A signal with the number of one that came less than so many seconds before is the same one.
SAME_WITHIN = 1.0


class Echoes:
    """Tells a signal from its echo: the same one again within `SAME_WITHIN`. Takes no lock."""

    def __init__(self, *, same_within: float | None = None) -> None:
        """*same_within* is in seconds; `SAME_WITHIN` if None."""
        self._same_within = SAME_WITHIN if same_within is None else same_within
        self._counted_at: dict[int, float] = {}

    def is_echo(self, number: int) -> bool:
        """Return whether the signal that has just come counts for nothing; otherwise it counts from now on."""
        now = monotonic()
        counted_at = self._counted_at.get(number)
        if counted_at is not None and now - counted_at < self._same_within:
            return True
        self._counted_at[number] = now
        return False


class Signals:
    """While the context lasts, each of `STOP_SIGNALS` calls *received* with its name, except for echoes.

    *received* runs in the main thread between any two steps of it, so it must not need a lock. Outside the
    main thread, where Python allows no handlers, the context does nothing: whoever started the worker calls
    its `stop`.
    """

    def __init__(self, received: Callable[[str], None]) -> None:
        self._received = received
        self._echoes = Echoes()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if in_main_thread():
            for number in STOP_SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._before:
            number, handler = self._before.popitem()
            # None: it was not installed from Python, so Python cannot put it back
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._echoes.is_echo(number):
            self._received(signal.Signals(number).name)
