"""What a supervisor sleeps on: signals to stop, the end of a process, and what a process says."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any

from taskq_sync.worker.channel import Channel
from taskq_sync.worker.signals import STOP_SIGNALS, Echoes

_CHUNK = 4096


class Wakeups:
    """While the context lasts, signals are remembered and end a `wait`. For the main thread only.

    The handlers are installed explicitly, so that the first process of a container hears them too.
    """

    def __init__(self) -> None:
        self._stops: deque[str] = deque()
        self._echoes = Echoes()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Wakeups:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        # Python writes a byte for each signal, also when it comes just before the wait begins.
        self._descriptor_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            self._before[number] = signal.signal(number, self._stop)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _wake)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._descriptor_before)
        os.close(self._read_end)
        os.close(self._write_end)

    def wait(self, seconds: float | None, channels: Iterable[Channel] = ()) -> None:
        """Block until a signal comes, there is something to hear on one of *channels*, or *seconds* are over."""
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        for channel in channels:
            poll.register(channel.fileno(), select.POLLIN)
        poll.poll(None if seconds is None else max(0.0, 1000 * seconds))
        try:
            while os.read(self._read_end, _CHUNK):
                pass
        except BlockingIOError:
            pass

    def take_stop(self) -> str | None:
        """Return the name of the next signal to stop, each once; None when there is none."""
        return self._stops.popleft() if self._stops else None

    @property
    def stop_wanted(self) -> bool:
        """Whether there is a signal to stop that nobody has taken."""
        return bool(self._stops)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if not self._echoes.is_echo(number):
            self._stops.append(signal.Signals(number).name)


def _wake(number: int, frame: FrameType | None) -> None: ...
