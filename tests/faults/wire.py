"""The frontend side of PostgreSQL's protocol, as far as one must read it to know which statement goes by."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

#: Codes that stand where a StartupMessage has its version: these messages ask for something else.
_CANCEL, _SSL, _GSS = 80877102, 80877103, 80877104

#: Types of messages after which the server may act on what came before.
_ENDS_A_GROUP = frozenset(b"QSHXFdcf")

_FUNCTION = re.compile(r"\b(?:from|select)\s+(?:\"[^\"]+\"|\w+)\.(\w+)\(", re.IGNORECASE)


def act_of(sql: str) -> str:
    """Return what a statement does, in one word: the function it calls, or its first word."""
    found = _FUNCTION.search(sql)
    if found is not None:
        return found[1]
    words = sql.split(maxsplit=1)
    return words[0].lower().rstrip(";") if words else ""


class Group:
    """Messages that a client sends together, and what the statements in it do."""

    def __init__(self) -> None:
        self.data = b""
        self.acts: list[str] = []


class Frontend:
    """What one client has said: feed it bytes, get whole groups of messages."""

    def __init__(self) -> None:
        self.application_name = ""
        self.is_cancel = False
        self._started = False
        self._rest = b""
        self._group = Group()
        self._statements: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}

    def feed(self, data: bytes) -> Iterator[Group]:
        """Take *data* and return the groups that it completes."""
        self._rest += data
        while True:
            whole = self._next_message()
            if whole is None:
                return
            self._group.data += whole
            if self._ends_group(whole):
                group, self._group = self._group, Group()
                yield group

    def _next_message(self) -> bytes | None:
        head = 0 if not self._started else 1
        if len(self._rest) < head + 4:
            return None
        size = head + int(struct.unpack_from("!i", self._rest, head)[0])
        if len(self._rest) < size:
            return None
        whole, self._rest = self._rest[:size], self._rest[size:]
        return whole

    def _ends_group(self, message: bytes) -> bool:
        if not self._started:
            self._read_startup(message)
            return True
        self._read(message[:1], message[5:])
        return message[0] in _ENDS_A_GROUP or message[:1] == b"p"

    def _read_startup(self, message: bytes) -> None:
        [code] = struct.unpack_from("!i", message, 4)
        if code == _CANCEL:
            self.is_cancel = True
        elif code not in (_SSL, _GSS):
            self._started = True
            words = message[8:].split(b"\0")
            given = dict(zip(words[::2], words[1::2], strict=False))
            self.application_name = given.get(b"application_name", b"").decode()

    def _read(self, kind: bytes, body: bytes) -> None:
        if kind == b"Q":
            self._group.acts.append(act_of(body.rstrip(b"\0").decode()))
        elif kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            self._statements[name] = sql.decode()
        elif kind == b"B":
            portal, statement, _ = body.split(b"\0", 2)
            self._portals[portal] = self._statements.get(statement, "")
        elif kind == b"E":
            self._group.acts.append(act_of(self._portals.get(body.split(b"\0", 1)[0], "")))


class Backend:
    """What a server says, as far as one must know when it is ready for the next statement."""

    def __init__(self) -> None:
        self._rest = b""

    def is_ready_after(self, data: bytes) -> bool:
        """Take *data*, which begins with a message, and tell whether it ends with the word that it is ready."""
        self._rest += data
        kind = b""
        while len(self._rest) >= 5:
            size = 1 + int(struct.unpack_from("!i", self._rest, 1)[0])
            if len(self._rest) < size:
                return False
            kind, self._rest = self._rest[:1], self._rest[size:]
        return kind == b"Z"
