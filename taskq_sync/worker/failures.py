"""The text that is kept of an exception: storable in any case, and small.

    >>> print(describe(ValueError("no such user")))
    ValueError: no such user

It begins with the type and the message and ends with the innermost frames. Whatever the exception does to
whoever looks at it, a text comes back.
"""

from __future__ import annotations

import traceback
from types import TracebackType

from taskq_sync.model import MAX_ERROR_BYTES
from taskq_sync.text import cut

#: Frames shown of one exception, the innermost.
FRAME_LIMIT = 20

_OWN_PACKAGE = __name__.partition(".")[0] + "."


def describe(error: BaseException, cap: int = MAX_ERROR_BYTES) -> str:
    """Return type, message and the last frames of *error* and of its causes, in at most *cap* bytes of UTF-8.

    Never raises. What PostgreSQL cannot hold is shown as an escape; a text that is too long loses its middle.
    """
    head = headline(error)
    try:
        trace = _trace(error)
    except BaseException as fault:  # an exception may break whoever looks at it
        trace = f"(no traceback: {type(fault).__name__})"
    return cut(f"{head}\n\n{trace}" if trace else head, cap)


def headline(error: BaseException) -> str:
    """Return *error* as `Type: message`, the type with its module unless it is a builtin. Never raises."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except BaseException as fault:  # __str__ is user code
        message = f"(its __str__ raised {type(fault).__name__})"
    return f"{name}: {message}" if message else name


def _trace(error: BaseException) -> str:
    frames = user_frames(error.__traceback__)
    if frames is None and error.__cause__ is None and error.__context__ is None:
        return ""
    shown = traceback.TracebackException(type(error), error, frames, limit=-FRAME_LIMIT, compact=True)
    return "".join(shown.format()).rstrip()


def user_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return *frames* without the leading ones of this package, which say nothing about the handler."""
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith(_OWN_PACKAGE):
        frames = frames.tb_next
    return frames
