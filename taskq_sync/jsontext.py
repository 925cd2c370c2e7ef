"""JSON as PostgreSQL holds it: the text is what `jsonb::text` would show, byte for byte, so its size is
known.

What Python's `json` would let through or change silently is refused with the path to the value: NaN and
Infinity, NUL and lone surrogates, keys that are not strings, sets. A float keeps its decimal point (1e22 is
written as 10000000000000000000000.0), since jsonb would give a whole number back as an int.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from json.encoder import encode_basestring

from taskq_sync.errors import PayloadError
from taskq_sync.text import find_unstorable

MAX_DEPTH = 200
"""How deeply lists and objects may be nested."""

_WHITE = " \t\n\r"

MAX_STEPS = 20
"""How many steps of a path a message shows."""


def write(value: object, what: str, *, path: str = "$") -> str:
    """Return *value* as JSON text.

    Takes None, bool, int (exact, whatever its size), float, str, list, tuple and mappings. Raises
    `PayloadError` with the path to anything else; *what* ("payload", "result") names the whole in the
    message.
    """
    out: list[str] = []
    try:
        _write(value, out, MAX_DEPTH)
    except Refused as refused:
        steps = refused.steps[::-1]
        where = path + "".join(steps[:MAX_STEPS]) + ("..." if len(steps) > MAX_STEPS else "")
        raise PayloadError(f"{what} cannot be stored as JSON: {refused} at {where}", path=where) from None
    return "".join(out)


def read(text: str) -> object:
    """Return what JSON text holds.

    Raises `PayloadError` for what Python does not hold: a number beyond a float, an int of more digits than it reads,
    and what is nested too deeply for it. Any producer may have stored that.
    """
    try:
        text = text.strip(_WHITE)
        value, end = _decoder.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return value
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"the JSON cannot be read: {error}") from error


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is beyond what a float holds")
    return value


# Of 100 bytes: by this 0.7 us, by `decode`, which looks for white space by regular expressions, 1.3 us, and by
# `json.loads`, which makes a decoder for each call that has a `parse_float`, 3.4 us.
_decoder = json.JSONDecoder(parse_float=_read_float)


def member(name: object) -> str:
    """Return the step of a path that leads to the member *name*: `.price`, or `["unit price"]`."""
    if isinstance(name, str) and name.isidentifier():
        return f".{name}"
    return f"[{encode_basestring(str(name))}]"


class Unfit:
    """Stands in a tree for a value that has no form in JSON; `write` refuses it with *message*, at its
    path."""

    def __init__(self, message: str) -> None:
        """Take the *message*, which goes on "... at $.path"."""
        self.message = message


class Refused(Exception):
    """A value that cannot be written; `steps` is collected on the way out, innermost first."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.steps: list[str] = []


def _write(value: object, out: list[str], depth: int) -> None:
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(string(value))
    elif isinstance(value, int):
        out.append(integer(value))
    elif isinstance(value, float):
        out.append(number(value))
    elif isinstance(value, Unfit):
        raise Refused(value.message)
    elif depth == 0:
        raise Refused(f"nested more than {MAX_DEPTH} levels deep")
    elif isinstance(value, (list, tuple)):
        _write_list(value, out, depth)
    elif isinstance(value, Mapping):
        _write_object(value, out, depth)
    else:
        raise Refused(f"{_article(type(value).__name__)} is no JSON value")


def _write_list(value: list[object] | tuple[object, ...], out: list[str], depth: int) -> None:
    separator = "["
    for index, item in enumerate(value):
        out.append(separator)
        separator = ", "
        try:
            _write(item, out, depth - 1)
        except Refused as refused:
            refused.steps.append(f"[{index}]")
            raise
    out.append("]" if value else "[]")


def _write_object(value: Mapping[object, object], out: list[str], depth: int) -> None:
    separator = "{"
    for name, item in value.items():
        try:
            if not isinstance(name, str):
                raise Refused(f"a key must be a str, not {_article(type(name).__name__)}")
            out.append(f"{separator}{string(name)}: ")
            separator = ", "
            _write(item, out, depth - 1)
        except Refused as refused:
            refused.steps.append(member(name))
            raise
    out.append("}" if value else "{}")


def string(value: str) -> str:
    """Return a str as JSON text. Raises `Refused`."""
    bad = find_unstorable(value)
    if bad is not None:
        raise Refused(f"a text with {bad}, which PostgreSQL cannot hold")
    return encode_basestring(value)


def integer(value: int) -> str:
    """Return an int as JSON text. Raises `Refused`."""
    try:
        return int.__repr__(value)
    except ValueError:  # sys.set_int_max_str_digits
        raise Refused("an int of too many digits") from None


def number(value: float) -> str:
    """Return a float as JSON text. Raises `Refused`."""
    if not math.isfinite(value):
        raise Refused(f"{float.__repr__(value)} is no JSON value")
    text = float.__repr__(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text if "." in text else text + ".0"


def _article(name: str) -> str:
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"
