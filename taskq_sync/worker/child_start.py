"""The first steps of every child process of a worker: it hears only its worker, and does not outlive it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
from types import FrameType

from taskq_sync.worker.channel import Channel
from taskq_sync.worker.signals import STOP_SIGNALS


def begin(channel_descriptor: int, lifeline: int) -> Channel:
    """Bind the life of this process to its worker's, and return the channel to it."""
    _die_with(lifeline)
    for number in STOP_SIGNALS:
        # Not SIG_IGN: that would be inherited by the programs that handlers start.
        signal.signal(number, _ignore)
    return Channel(socket.socket(fileno=channel_descriptor))


def _ignore(number: int, frame: FrameType | None) -> None: ...


def _die_with(lifeline: int) -> None:
    """Have the kernel kill this process as soon as nobody holds the other end of the pipe *lifeline*.

    The reader of the channel would notice too, but not while a handler keeps the interpreter to itself.
    """
    os.set_inheritable(lifeline, False)
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(lifeline, 0)
    if poll.poll(0):  # the other end was gone before: of that the kernel tells nobody
        os._exit(1)
