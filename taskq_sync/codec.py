"""Values to JSON and back, by cattrs; what a payload may hold.

=============================  =========================  ==================================================
type of a parameter            in JSON                    note
=============================  =========================  ==================================================
bool, str, None                the same
int                            number                     exact at any size
float                          number                     1e22 stays a float; NaN and Infinity are refused
datetime                       ISO 8601 with offset       aware only; the same instant, as a fixed offset
date, time                     ISO 8601                   time without a zone
timedelta                      number of seconds          exact to the microsecond below 285 years
Decimal, UUID                  string                     digits are kept: 0.10 stays 0.10
Enum                           its value
bytes                          base64 string
list, tuple, dict              array, object              keys are strings, or enums of strings
Sequence                       array                      comes back as a tuple
attrs, dataclass, TypedDict    object                     unknown members are refused
Literal, X | None              as its value               other unions where the JSON tells which is meant
none, Any, object, JsonValue   as it is                   bool, int, float, str, None, list, dict only
set, frozenset                 refused                    they have no order: use a list
=============================  =========================  ==================================================

A value is written by the type its parameter declares and read back at once, so that what the handler will
get is what was given; a difference is a `PayloadError` at its path. Those that surely come back are not read
back, see `exact`. Nothing is converted silently: a "7" is
no int.
"""

from __future__ import annotations

import base64
import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, cast
from uuid import UUID

import attrs
from cattrs import BaseConverter, Converter, transform_error
from cattrs.cols import list_structure_factory
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.strategies import configure_union_passthrough

from taskq_sync import exact, jsontext
from taskq_sync.errors import ConfigError, PayloadError
from taskq_sync.model import JsonValue

#: Types of JSON that are read as they are.
_EXACT = (bool, int, float, str)


def to_json(value: object, what: str = "value") -> str:
    """Return a result, a checkpoint or headers as JSON text.

    Objects become what their own type says: an attrs instance an object, an Enum its value, a tuple an
    array. Raises `PayloadError` for what is not JSON then, with the path; *what* names the value in the
    message.
    """
    try:
        plain = _outgoing.unstructure(value)
    except Exception as error:  # whatever an object of the user's raises when it is looked at
        raise PayloadError(f"{what} cannot be stored as JSON: {_reason(error)}") from error
    return jsontext.write(plain, what)


def from_json(text: str) -> JsonValue:
    """Return what JSON text holds. Raises `PayloadError` for what Python does not hold, see `jsontext.read`."""
    return cast(JsonValue, jsontext.read(text))


class TypeCodec:
    """Writes and reads the values of one declared type; what that takes is found out once, here."""

    def __init__(self, declared: object, what: str) -> None:
        """Take the type; *what* names its place. Raises `ConfigError` when no value of it could be
        restored."""
        self.is_record = is_record(declared)
        self._declared: Any = declared
        #: A value of exactly this type is read as it is; None where there is no such type.
        self.exact: type | None = declared if declared in _EXACT else None
        # What a record is written from; a TypedDict is a plain dict.
        self._kind: type | None = (
            declared
            if isinstance(declared, type) and self.is_record and not typing.is_typeddict(declared)
            else None
        )
        try:
            self._write = _payloads.get_unstructure_hook(declared)
            self._read = _payloads.get_structure_hook(self._declared)
        except Exception as error:
            raise ConfigError(f"{what} cannot be restored from JSON: {error}") from error

    @property
    def member_names(self) -> frozenset[str]:
        """The names of the members of a record."""
        kind = typing.get_origin(self._declared) or self._declared
        if typing.is_typeddict(kind):
            return frozenset(typing.get_type_hints(kind))
        fields: Iterable[Any] = attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)
        return frozenset(each.name for each in fields if each.init)

    def to_plain(self, value: object, path: str) -> object:
        """Return *value* as JSON-able objects, the way the type says. Raises `PayloadError` at *path*."""
        if self._kind is not None:
            _require(value, self._kind, self._kind.__name__, path)
        try:
            return self._write(value)
        except Exception as error:
            raise _payload_error(error, path) from error

    def structure(self, plain: object, path: str) -> object:
        """Return JSON-able objects as a value of the type. Raises `PayloadError` at *path* or below."""
        if self.is_record:
            _require(plain, Mapping, "an object", path)
        try:
            return self._read(plain, self._declared)
        except Exception as error:
            raise _payload_error(error, path) from error


def is_record(declared: object) -> bool:
    """Whether the type is an attrs class, a dataclass or a TypedDict: one that stands for a whole payload."""
    if not isinstance(declared, type):
        return attrs.has(typing.get_origin(declared) or type(None))
    return attrs.has(declared) or hasattr(declared, "__dataclass_fields__") or typing.is_typeddict(declared)


def find_difference(given: object, restored: object, path: str) -> str | None:
    """Return the path to the first place where a restored value is not what was given, or None.

    A subclass of dict or list, a tuple that became a list and an Enum that became its value are differences;
    a list that became a tuple is none (that is how a `Sequence` comes back), nor is an int that became a
    float.
    """
    if given is restored:
        return None
    if isinstance(given, (list, tuple)) and isinstance(restored, (list, tuple)):
        if len(given) != len(restored) or type(given) not in (list, type(restored)):
            return path
        pairs = enumerate(zip(given, restored, strict=True))
        return _first_difference((item, back, f"{path}[{index}]") for index, (item, back) in pairs)
    if isinstance(given, Mapping) and isinstance(restored, Mapping):
        if given.keys() != restored.keys() or (isinstance(given, dict) and type(given) is not type(restored)):
            return path
        return _first_difference(
            (item, restored[key], path + jsontext.member(key)) for key, item in given.items()
        )
    names = _fields_of(type(given))
    if names is not None and type(given) is type(restored):
        return _first_difference((getattr(given, n), getattr(restored, n), f"{path}.{n}") for n in names)
    return None if _same(given, restored) else path


def _same(given: object, restored: object) -> bool:
    if isinstance(given, datetime) and isinstance(restored, datetime):
        # In the hour that a change of the clocks repeats or skips, == is false for any other zone.
        return _in_utc(given) == _in_utc(restored)
    try:
        return isinstance(given, Enum) == isinstance(restored, Enum) and bool(given == restored)
    except Exception:  # what cannot be compared, such as a signaling NaN, is not the same
        return False


def _in_utc(instant: datetime) -> datetime | str:
    try:
        return instant.astimezone(timezone.utc)
    except OverflowError:  # the first and the last hours of the calendar
        return instant.isoformat()


def _first_difference(places: Iterable[tuple[object, object, str]]) -> str | None:
    for given, restored, path in places:
        found = find_difference(given, restored, path)
        if found is not None:
            return found
    return None


def _fields_of(kind: type) -> list[str] | None:
    if attrs.has(kind):
        return [each.name for each in attrs.fields(kind) if each.init and each.eq]
    if dataclasses.is_dataclass(kind):
        return [each.name for each in dataclasses.fields(kind) if each.init and each.compare]
    return None


def _require(value: object, kind: type, name: str, path: str) -> None:
    if not isinstance(value, kind):
        raise PayloadError(f"expected {name}, got {type(value).__name__} at {path}", path=path)


def _payload_error(error: Exception, path: str) -> PayloadError:
    if isinstance(error, RecursionError):
        return PayloadError(f"nested too deeply at {path}", path=path)
    said, _, where = transform_error(error, path=path, format_exception=_say)[0].rpartition(" @ ")
    return PayloadError(f"{said} at {where}", path=where)


def _say(error: BaseException, declared: type | None) -> str:
    if isinstance(error, KeyError):
        return f"member {error.args[0]!r} is missing"
    if isinstance(error, ForbiddenExtraKeysError):
        return "unknown member " + ", ".join(sorted(map(repr, error.extra_fields)))
    if isinstance(error, (AttributeError, TypeError)):  # generated code met something else than it expects
        name = getattr(declared, "__name__", None)
        return "not of its declared type" if name is None else f"not of type {name}"
    return _reason(error)


def _reason(error: BaseException) -> str:
    if isinstance(error, _Misfit):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an error whose text raises an error
        return type(error).__name__


class _Misfit(ValueError):
    """A value that is not of its type; the message is meant for people."""


# Reading: what is not exactly of the type is refused, for a payload may come from any producer.


def _strictly(*kinds: type) -> Callable[[Any, Any], Any]:
    """Return a hook that takes values of exactly these types. Subclasses of the declared type (an IntEnum
    is an int) are made from them."""

    def read(value: Any, declared: Any) -> Any:
        if type(value) not in kinds:
            raise _Misfit(f"expected {kinds[0].__name__}, got {type(value).__name__}")
        return value if type(value) is declared else declared(value)

    return read


def _from_text(name: str, parse: Callable[[str], object]) -> Callable[[Any, Any], Any]:
    def read(value: Any, declared: Any) -> Any:
        if type(value) is not str:
            raise _Misfit(f"expected {name} as a string, got {type(value).__name__}")
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise _Misfit(f"expected {name}, got {value!r}") from None

    return read


def _read_datetime(text: str) -> datetime:
    # Python 3.10 knows no "Z".
    instant = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    if instant.utcoffset() is None:
        raise ValueError
    return instant


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _read_timedelta(value: Any, declared: Any) -> timedelta:
    if type(value) not in (int, float):
        raise _Misfit(f"expected a number of seconds, got {type(value).__name__}")
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise _Misfit(f"expected a number of seconds, got {value!r}") from None


def _is_series(declared: Any) -> bool:
    """Whether the type is a list, a tuple of any length or a `Sequence`, of whatever elements."""
    origin, arguments = typing.get_origin(declared) or declared, typing.get_args(declared)
    return origin in (list, Sequence) or (origin is tuple and (not arguments or arguments[-1] is Ellipsis))


def _read_series(declared: Any, converter: BaseConverter) -> Callable[[Any, Any], Any]:
    inner = list_structure_factory(declared, converter)
    as_list = (typing.get_origin(declared) or declared) is list

    def read(value: Any, declared: Any) -> Any:
        if not isinstance(value, list):  # a str would be read as its characters
            raise _Misfit(f"expected a list, got {type(value).__name__}")
        items = inner(value, declared)
        return items if as_list else tuple(items)

    return read


# Writing: what has no form in JSON becomes `Unfit`, so that the writer can name its path.


def _write_datetime(value: datetime) -> object:
    if value.utcoffset() is None:
        return jsontext.Unfit("a datetime without a time zone")
    return value.isoformat()


def _write_time(value: time) -> object:
    return jsontext.Unfit("a time with a time zone") if value.tzinfo is not None else value.isoformat()


def _write_timedelta(value: timedelta) -> object:
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _as_it_is(value: Any) -> Any:
    return value


def _is_open(declared: Any) -> bool:
    return declared in exact.OPEN_TYPES


def _make_converter() -> Converter:
    """Return a converter with the hooks for the types of the table."""
    made = Converter(forbid_extra_keys=True)
    made.register_structure_hook(bool, _strictly(bool))
    made.register_structure_hook(int, _strictly(int))
    made.register_structure_hook(float, _strictly(float, int))
    made.register_structure_hook(str, _strictly(str))
    made.register_structure_hook(datetime, _from_text("an aware datetime", _read_datetime))
    made.register_structure_hook(date, _from_text("a date", date.fromisoformat))
    made.register_structure_hook(time, _from_text("a time", time.fromisoformat))
    made.register_structure_hook(Decimal, _from_text("a decimal number", Decimal))
    made.register_structure_hook(UUID, _from_text("a UUID", UUID))
    made.register_structure_hook(bytes, _from_text("base64", _read_bytes))
    made.register_structure_hook(timedelta, _read_timedelta)
    made.register_structure_hook_factory(_is_series, _read_series)
    made.register_unstructure_hook(date, date.isoformat)
    made.register_unstructure_hook(datetime, _write_datetime)
    made.register_unstructure_hook(time, _write_time)
    made.register_unstructure_hook(timedelta, _write_timedelta)
    made.register_unstructure_hook(Decimal, str)
    made.register_unstructure_hook(UUID, str)
    made.register_unstructure_hook(bytes, _write_bytes)
    configure_union_passthrough(bool | int | float | str | None, made)
    return made


def _make_payload_converter() -> Converter:
    """Return a converter that leaves alone what is declared as anything: the writer then takes JSON values
    only."""
    made = _make_converter()
    made.register_unstructure_hook_func(_is_open, _as_it_is)
    made.register_structure_hook_func(_is_open, lambda value, declared: value)
    return made


_outgoing = _make_converter()
_payloads = _make_payload_converter()
