"""Breaking off a function that runs in another thread, at a place where that does no harm.

::

    guard = Guard()                          # in the thread that is to be interrupted
    guard.run(handler)                       # raises what another thread hands to guard.interrupt

Python delivers such an exception between any two steps of the thread, which may be steps of somebody else by then. So
it is sent only while the guarded function runs, at most once, and what was sent too late is taken back. Code of this
library that the function calls keeps it off by `uninterrupted`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from taskq_sync.errors import TaskQError

T = TypeVar("T")

_current = threading.local()
_NOTHING = nullcontext()


class Guard:
    """One call of a function that may be interrupted.

    `_lock` guards `_open`, `_depth` and `sent`; to send is to hold it. While nothing was sent, the guarded thread
    cannot be interrupted, so it gives the lock back for sure. After that it might be interrupted before it has done
    so: hence the lock is one that its owner may take again, and the other side no longer needs it.
    """

    def __init__(self) -> None:
        """Guard the thread that calls this."""
        self._thread = threading.get_ident()
        self._lock = threading.RLock()
        self._open = False
        self._depth = 0
        self.sent = False

    def run(self, call: Callable[[], T]) -> T:
        """Return or raise what *call* does, or raise the interrupt. Nothing can arrive after that."""
        value: T
        fault: BaseException | None = None
        _current.guard = self
        try:
            try:
                self._open = True
                value = call()
            except BaseException as error:
                fault = error
            self._close()
        except BaseException as error:  # the interrupt, which came when the function had just ended
            fault = error
        _current.guard = None
        if fault is None:
            return value
        try:
            raise fault
        finally:
            del fault  # it holds this frame, which would hold it

    def interrupt(self, error: TaskQError) -> bool:
        """Have an exception of the type and message of *error* raised in the function; called by another thread.

        Return False, and do nothing, when the function has ended, is in the middle of `uninterrupted`, or has been
        interrupted before. A function that waits in the operating system is interrupted when that returns.
        """
        with self._lock:
            if not self._open or self._depth:
                return False
            self._open = False
            self.sent = True
            _raise_in(self._thread, _kind_of(error))
            return True

    def _close(self) -> None:
        with self._lock:
            self._open = False
            if self.sent:
                _raise_in(self._thread, None)

    def shift(self, change: int) -> None:
        """Go deeper (+1) or back (-1); what was sent before a way in is raised at the end of this."""
        with self._lock:
            self._depth += change
        if self.sent:
            for _ in range(3):  # a loop is where Python looks for it
                pass


def uninterrupted() -> AbstractContextManager[None]:
    """Keep interrupts off for the block, which should be short. Costs nearly nothing where there can be none."""
    guard: Guard | None = getattr(_current, "guard", None)
    return _NOTHING if guard is None else _shifted(guard, 1)


def interruptible() -> AbstractContextManager[None]:
    """Let interrupts in for the block, within `uninterrupted`."""
    guard: Guard | None = getattr(_current, "guard", None)
    return _NOTHING if guard is None else _shifted(guard, -1)


@contextmanager
def _shifted(guard: Guard, change: int) -> Iterator[None]:
    guard.shift(change)
    try:
        yield
    finally:
        guard.shift(-change)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise *kind* in *thread* at its next step; None takes back what it has not seen yet."""
    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)


def _kind_of(error: TaskQError) -> type[BaseException]:
    """Return a class that is *error*: Python makes the exception from it, without arguments."""
    base, message = type(error), error.message

    def make(self: TaskQError) -> None:
        base.__init__(self, message)

    def reduce(self: TaskQError) -> tuple[object, ...]:
        return base, (message,)

    names = {"__init__": make, "__reduce__": reduce, "__module__": base.__module__, "__doc__": base.__doc__}
    return type(base.__qualname__, (base,), names)
