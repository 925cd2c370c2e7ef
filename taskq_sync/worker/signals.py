"""SIGTERM and SIGINT as requests to stop.

Handlers are installed explicitly, so a worker that is PID 1 of a container hears them too: the kernel gives
such a process no default action.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from taskq_sync.worker.threads import in_main_thread

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """While the context lasts, each of `STOP_SIGNALS` calls *received* with its name.

    *received* runs in the main thread between any two steps of it, so it must not need a lock. Outside the
    main thread, where Python allows no handlers, the context does nothing: whoever started the worker calls
    its `stop`.
    """

    def __init__(self, received: Callable[[str], None]) -> None:
        self._received = received
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
        self._received(signal.Signals(number).name)
