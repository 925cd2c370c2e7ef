"""Bytes that no client of good faith would send: text that is no UTF-8, and binary values of a wrong length.

PostgreSQL refuses them before a function is entered; the session goes on, and nothing has changed.
"""

# Scenario B59.

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pytest
from psycopg import pq

from input.functions import Function, Parameter
from input.test_functions import FUNCTIONS
from input.world import World

_NO_UTF8 = [b"\xff", b"a\xff", b"\xc0\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"q\x00r"]
_WORD = b"\x00\x00\x00\x01"


def _one_dimension(element_type: int, *elements: bytes) -> bytes:
    """Return an array in the binary form."""
    head = _WORD + bytes(4) + element_type.to_bytes(4, "big") + len(elements).to_bytes(4, "big") + _WORD
    return head + b"".join(len(each).to_bytes(4, "big") + each for each in elements)


def _no_array(element_type: int) -> list[bytes]:
    kind = element_type.to_bytes(4, "big")
    return [
        b"",
        _WORD,
        b"\x7f\xff\xff\xff" + bytes(4) + kind,  # more dimensions than there are
        b"\xff\xff\xff\xff" + bytes(4) + kind,
        _WORD + bytes(4) + kind + b"\x7f\xff\xff\xff" + _WORD,  # more elements than there is room for
        _WORD + bytes(4) + kind + b"\x00\x00\x00\x02" + b"\x7f\xff\xff\xff",  # beyond the last subscript
        _WORD + b"\x00\x00\x00\x07" + kind + _WORD + _WORD,  # unknown flags
        _WORD + bytes(4) + (16).to_bytes(4, "big") + bytes(8),  # of booleans
        _one_dimension(element_type, b"\xff" * 7),
        _one_dimension(element_type, b"12345678") + b"more",
    ]


#: By the type's name: its OID, and what is none of its values in the binary form. A jsonb of another version than 1
#: is not among them: PostgreSQL calls that an internal error.
_BINARY: dict[str, tuple[int, list[bytes]]] = {
    "text": (25, _NO_UTF8),
    "jsonb": (3802, [b"", b"\x01", b"\x01{", b'\x01"\xff"', b'\x01"\x00"', b"\x01" + b"[" * 100_000]),
    "smallint": (21, [b"", b"\x01", b"\x00\x00\x01"]),
    "integer": (23, [b"", b"\x00\x00\x01", _WORD + b"\x00"]),
    "bigint": (20, [b"", b"\x00" * 7, b"\x00" * 9]),
    "boolean": (16, [b"", b"\x00\x01"]),
    "interval": (1186, [b"", b"\x00" * 15, b"\x00" * 17]),
    "timestamp with time zone": (1184, [b"", b"\x00" * 7, b"\x00" * 9, b"\x7f" + b"\xff" * 6 + b"\x00"]),
    "text[]": (1009, [*_no_array(25), _one_dimension(25, b"q", b"r\x00")]),
    "bigint[]": (1016, _no_array(20)),
}


def _call(
    world: World, function: Function, parameter: Parameter, value: bytes, *, binary: bool
) -> str | None:
    """Send *value* in one parameter and good text in the others; return the SQLSTATE."""
    arguments = {**world.arguments(function), parameter.name: None}
    names = list(arguments)
    given = ", ".join(f"{name} => ${n}" for n, name in enumerate(names, 1))
    place = names.index(parameter.name)
    values: list[bytes | None] = [None if each is None else each.encode() for each in arguments.values()]
    values[place] = value
    formats, types = [0] * len(names), [0] * len(names)
    formats[place], types[place] = int(binary), _BINARY[parameter.type][0]
    sent = f"select r::text from taskq.{function.name}({given}) as r".encode()
    result = world.conn.pgconn.exec_params(sent, values, types, formats)
    assert result.status == pq.ExecStatus.FATAL_ERROR, value
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    return None if state is None else state.decode()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_value_of_the_type_never_reaches_a_function(world: World, name: str) -> None:
    function = world.functions[name]
    for parameter in function.parameters:
        binary: Iterable[tuple[bytes, bool]] = ((each, True) for each in _BINARY[parameter.type][1])
        text = ((each, False) for each in _NO_UTF8 if b"\x00" not in each)
        for value, is_binary in chain(binary, text):
            state = _call(world, function, parameter, value, binary=is_binary)
            # data exceptions, a message that is too short, a limit of the server, an array of another type
            assert state is not None, value
            assert state[:2] in ("22", "54") or state in ("08P01", "42804"), (parameter, value[:40], state)
    assert world.read_digest() == world.digest
