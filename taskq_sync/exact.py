"""Values that surely come back as they were, so that nobody need read them back to see it.

These are None, bool, int, float, str, list and dict themselves, no subclasses of them, in the places where a type of
just these was declared. Most payloads hold nothing else.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Union

from taskq_sync import jsontext
from taskq_sync.jsontext import Refused
from taskq_sync.model import JsonValue

Writer = Callable[[Any], str]
"""Returns the JSON text of a value, that of `jsontext.write`; raises `Refused` for a value that it does not know."""

OPEN_TYPES = (Any, object, list, dict, JsonValue)
"""Types of which any JSON value is taken as it is."""

# Nobody nests so deeply; whether it is too deep is for `jsontext.write` to say.
_MAX_DEPTH = 50


def writer_of(declared: object) -> Writer | None:
    """Return the writer of the values of a type, None when there may be none that surely come back."""
    if declared in OPEN_TYPES:
        return _write_any
    if isinstance(declared, type) and declared in _SCALARS:
        return _SCALARS[declared]
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in (Union, types.UnionType):
        return _writer_of_union(arguments)
    if origin is list and len(arguments) == 1:
        item = writer_of(arguments[0])
        return None if item is None else _list_writer(item)
    if origin is dict and arguments[:1] == (str,):
        item = writer_of(arguments[1])
        return None if item is None else _dict_writer(item)
    return None


def _writer_of_union(members: tuple[object, ...]) -> Writer | None:
    scalars = {each: _SCALARS[each] for each in members if isinstance(each, type) and each in _SCALARS}
    if len(scalars) == len(members):
        return _by_type(scalars)
    others = [each for each in members if each is not types.NoneType]
    inner = writer_of(others[0]) if len(others) == 1 else None
    if inner is None:
        return None

    def write(value: Any) -> str:
        return "null" if value is None else inner(value)

    return write


def _exactly(kind: type, write: Writer) -> Writer:
    def write_exactly(value: Any) -> str:
        if type(value) is kind:
            return write(value)
        raise Refused("of another type")

    return write_exactly


def _by_type(writers: Mapping[type, Writer]) -> Writer:
    def write(value: Any) -> str:
        found = writers.get(type(value))
        if found is None:
            raise Refused("of another type")
        return found(value)

    return write


def _list_writer(item: Writer) -> Writer:
    def write(value: Any) -> str:
        if type(value) is not list:
            raise Refused("of another type")
        return "[" + ", ".join([item(each) for each in value]) + "]"

    return write


def _dict_writer(item: Writer) -> Writer:
    def write(value: Any) -> str:
        if type(value) is not dict:
            raise Refused("of another type")
        return "{" + ", ".join([f"{_write_str(name)}: {item(each)}" for name, each in value.items()]) + "}"

    return write


def _write_any(value: Any, depth: int = _MAX_DEPTH) -> str:
    kind = type(value)
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar(value)
    if depth and kind is list:
        return "[" + ", ".join([_write_any(each, depth - 1) for each in value]) + "]"
    if depth and kind is dict:
        members = [f"{_write_str(name)}: {_write_any(each, depth - 1)}" for name, each in value.items()]
        return "{" + ", ".join(members) + "}"
    raise Refused("of another type, or too deep")


_write_str = _exactly(str, jsontext.string)

_SCALARS: dict[type, Writer] = {
    types.NoneType: _exactly(types.NoneType, lambda value: "null"),
    bool: _exactly(bool, lambda value: "true" if value else "false"),
    int: _exactly(int, jsontext.integer),
    float: _exactly(float, jsontext.number),
    str: _write_str,
}
