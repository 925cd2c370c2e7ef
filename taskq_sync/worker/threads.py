"""How a worker makes its threads and what they wait on; no other module of it decides that.

The parts take locks, events, queues and threads from here, so that running them on something else than
operating system threads is a matter of this module alone.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, current_thread, main_thread

__all__ = ["Empty", "Event", "Lock", "Service", "SimpleQueue", "in_main_thread", "service_name"]

#: PostgreSQL cuts an application_name after 63 bytes; thread names are kept to the same.
NAME_LIMIT = 63


def service_name(worker_id: str, part: str) -> str:
    """Return the name of a part, for its thread and as `application_name` of its connection.

    It ends with the part; a long *worker_id* is cut in front, because its end is what differs per process
    start.
    """
    room = NAME_LIMIT - len("taskq--") - len(part)
    return f"taskq-{worker_id[-room:]}-{part}"


def in_main_thread() -> bool:
    """Return whether the caller runs in the main thread, the only one that may install signal handlers."""
    return current_thread() is main_thread()


class Service:
    """One thread with a body that is meant to return only when it is told to end.

    As its last act the thread calls *ended*, with the exception that left the body or None, so that none ends
    unnoticed. Whoever starts it joins it.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], None],
        ended: Callable[[str, BaseException | None], None],
        *,
        daemon: bool = False,
    ) -> None:
        """Name the thread *name*. A *daemon* does not keep the process from ending."""
        self.name = name
        self._body = body
        self._tell_ended = ended
        self._returned = False
        self._thread = Thread(target=self._run, name=name, daemon=daemon)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError when called twice or when the system has no more threads."""
        self._thread.start()

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds (None = for ever); return whether it has ended or never ran."""
        if self._thread.ident is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """Whether the body does not run: it has returned, or was never started."""
        return self._returned or self._thread.ident is None

    def stack(self) -> str:
        """Return where the thread is at this moment, innermost call last, or "" when it does not run."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""

    def _run(self) -> None:
        fault: BaseException | None = None
        try:
            self._body()
        except BaseException as error:  # the border of the thread
            fault = error
        self._returned = True
        self._tell_ended(self.name, fault)
