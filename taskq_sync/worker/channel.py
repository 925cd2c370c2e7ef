"""The line between a process and one that it has started: JSON documents over a pair of sockets.

It joins a worker and its child processes, and a supervisor and its workers.

Each side may send from several threads, and receives in one.
"""

from __future__ import annotations

import json
import select
import socket
from collections import deque
from typing import Any

from taskq_sync.worker.threads import Lock

_CHUNK = 65536

Message = dict[str, Any]


class ChannelClosed(Exception):
    """The other side is gone, or does not take anything any more."""


class Channel:
    """One end.

    `_lock` is held while a document is sent, so that two of them do not mix and none is sent after the end is closed,
    when its number may be that of another file.
    """

    def __init__(self, end: socket.socket, *, timeout: float | None = None) -> None:
        """Own *end*; sending blocks up to *timeout* seconds, None = for ever."""
        end.set_inheritable(False)
        end.settimeout(timeout)
        self._socket = end
        self._poll = select.poll()  # for one thread only, and of any descriptor, unlike select()
        self._poll.register(end, select.POLLIN)
        self._lock = Lock()
        self._received = b""
        self._ready: deque[Message] = deque()

    def send(self, message: Message) -> None:
        """Send *message*. Blocks as long as the constructor says. Raises `ChannelClosed`."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._socket.sendall(line)
            except OSError as error:
                raise ChannelClosed(str(error)) from error

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message; None after *timeout* seconds (None = wait for ever).

        Raises `ChannelClosed` when the other side is gone and everything it sent is read.
        """
        while not self._ready:
            chunk = self._read(timeout)
            if chunk is None:
                return None
            *lines, self._received = (self._received + chunk).split(b"\n")
            self._ready.extend(json.loads(line) for line in lines)
        return self._ready.popleft()

    def fileno(self) -> int:
        """Return the descriptor, for who waits for several things at once."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end, after what is being sent; the other side finds out."""
        with self._lock:
            self._socket.close()

    def _read(self, timeout: float | None) -> bytes | None:
        if timeout is not None and not self._poll.poll(1000 * timeout):
            return None
        try:
            chunk = self._socket.recv(_CHUNK)
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not chunk:
            raise ChannelClosed("the other side has closed")
        return chunk
