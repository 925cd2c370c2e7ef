"""The unique key of a job, made of its task and its arguments.

The key is the name of the task, a colon, and the SHA-256 in hexadecimal of the name and the chosen members of the
payload in one canonical form. Two jobs of a task get the same key exactly when PostgreSQL takes these members for equal
(`jsonb = jsonb`): the order of members does not matter and 1 is 1.0; a member that is left out is not one that
is null, true is not 1, and a text is its code points, so that two ways to write an é are two texts. The form
depends on nothing else, so every process, machine and version of Python makes the same key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from json.encoder import encode_basestring
from typing import Any


def argument_key(task: str, payload_json: str, names: Collection[str] | None = None) -> str:
    """Return the key for a payload as `jsontext` writes it, of the members *names*; of all of them if None.

    At most 185 bytes long, as the name of a task has at most 120.
    """
    payload = json.loads(payload_json, parse_int=_Number, parse_float=_Number)
    chosen = payload if names is None else {name: payload[name] for name in names if name in payload}
    digest = hashlib.sha256(_canonical([task, chosen]).encode()).hexdigest()
    return f"{task}:{digest}"


class _Number:
    """A number of the payload, by its shortest digits. Python's own int reads only so many of them."""

    def __init__(self, text: str) -> None:
        digits = text.rstrip("0").rstrip(".") if "." in text else text
        self.digits = "0" if digits == "-0" else digits


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{encode_basestring(name)}:{_canonical(item)}" for name, item in sorted(value.items()))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    if isinstance(value, _Number):
        return value.digits
    return encode_basestring(value) if isinstance(value, str) else json.dumps(value)
