"""Text that PostgreSQL can hold: neither NUL nor a lone surrogate, and no longer than its cap.

What a program *asks for* (a name, a key, a payload) is refused when it does not fit. What a program
*reports* (an error, a reason) is always stored: `storable` shows the bad characters as escapes and `cut`
shortens the middle.
"""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CUT_MARK = "\n... {} bytes cut ...\n"


def find_unstorable(text: str) -> str | None:
    """Return the first character that PostgreSQL cannot hold, as its escape (`\\x00`, `\\udce9`), or None."""
    if text.isascii() and "\x00" not in text:  # most texts; the expression takes ten times as long
        return None
    found = _UNSTORABLE.search(text)
    return None if found is None else _escape(found)


def storable(text: str) -> str:
    """Return *text* with every NUL as `\\x00` and every lone surrogate as `\\udcxx`."""
    return _UNSTORABLE.sub(_escape, text)


def cut(text: str, cap: int) -> str:
    """Return storable *text* in at most *cap* bytes of UTF-8: head and tail are kept, the middle is cut out.

    Of a traceback the first lines and the error itself survive. *cap* is at least 64.
    """
    # A character has at least one byte, so what lies beyond the cap from both ends is never needed: a text of
    # many megabytes is not encoded as a whole. Escapes only make it longer.
    size = len(text)
    if size > 2 * cap:
        text = text[:cap] + text[-cap:]
    data = storable(text).encode()
    if size <= 2 * cap and len(data) <= cap:
        return data.decode()
    mark = _CUT_MARK.format(f"over {size - cap}" if size > 2 * cap else len(data) - cap)
    room = cap - len(mark)
    head = data[: room // 2].decode(errors="ignore")
    tail = data[-(room - room // 2) :].decode(errors="ignore")
    return head + mark + tail


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\\x00" if code == 0 else f"\\u{code:04x}"
