"""A task's function: what its parameters say about the payload, and how it is called with one.

A payload is a JSON object. Usually its members are the keyword arguments of the function; when the function
takes just one parameter that is an attrs class, a dataclass or a TypedDict, the payload is that object
itself.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, cast

from attrs import frozen

from taskq_sync import codec, exact, jsontext
from taskq_sync.codec import TypeCodec
from taskq_sync.context import JobContext
from taskq_sync.errors import ConfigError, PayloadError
from taskq_sync.model import JsonValue

MAX_PAYLOAD_BYTES = 65536

_CALLABLE_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@frozen
class _Member:
    """One member of the payload: how its values are written and read, and its path for messages."""

    codec: TypeCodec
    path: str


@frozen
class _Shape:
    """What is known once the types are resolved: the members by name, the type of `**kwargs` if there are
    any, the name of the parameter that is the whole payload, and what can be written without a look back."""

    members: Mapping[str, _Member]
    rest: TypeCodec | None
    whole: str | None
    exact: Mapping[str, tuple[str, exact.Writer]]
    """By name, the members that may have values which surely come back: how they begin in JSON, and the writer."""

    def member(self, name: str) -> _Member:
        """Return the member *name*, which was checked to be there or among the rest."""
        found = self.members.get(name)
        return found if found is not None else _Member(cast(TypeCodec, self.rest), path_of(name))


def path_of(name: str) -> str:
    """Return the path of a member of the payload."""
    return "$" + jsontext.member(name)


class Handler:
    """A function that handles jobs.

    Types are looked up at the first use, not at decoration: they may be defined later in the module.
    """

    def __init__(self, function: Callable[..., object], task: str) -> None:
        """Take the function of the task named *task*.

        Raises `ConfigError` for a function that cannot be called by keywords.
        """
        if inspect.iscoroutinefunction(function):
            raise ConfigError(
                f"task {task!r} is a coroutine function", hint="taskq_sync runs plain functions"
            )
        self.function = function
        self._task = task
        parameters = list(inspect.signature(function).parameters.values())
        self.wants_context = bool(parameters) and _is_context(parameters[0])
        self._parameters = parameters[1:] if self.wants_context else parameters
        self._signature = inspect.Signature(self._parameters)
        self._check_kinds()
        named = [each for each in self._parameters if each.kind in _CALLABLE_BY_NAME]
        self._names = frozenset(each.name for each in named)
        self._by_position = [each.name for each in named if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        self._required = frozenset(each.name for each in named if each.default is Parameter.empty)
        self._rest = next((each.name for each in self._parameters if each not in named), None)
        self._shape: _Shape | None = None

    def _check_kinds(self) -> None:
        for each in self._parameters:
            if each.kind not in (*_CALLABLE_BY_NAME, Parameter.VAR_KEYWORD):
                raise ConfigError(
                    f"task {self._task!r} cannot be called with {each} by name",
                    hint="use parameters that may be given as keywords",
                )

    def member_names(self) -> frozenset[str] | None:
        """Return the names that the members of a payload may have; None if any will do.

        Raises `ConfigError` where one parameter may be the whole payload and its type is not known yet.
        """
        if self._rest is not None:
            return None
        if len(self._parameters) != 1:
            return self._names
        shape = self.shape()
        return self._names if shape.whole is None else shape.member(shape.whole).codec.member_names

    def dump(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        """Return the payload for a call with these arguments, as JSON text.

        It is read back at once, unless it surely comes back as it was given. Raises `PayloadError`, with the
        path, when the arguments do not fit the function, cannot be stored, would come back changed, or are
        larger than 64 KiB.
        """
        shape = self.shape()
        given = self._bind(args, kwargs)
        text = _write_exactly(given, shape)
        if text is not None:
            self._check_size(text)
            return text
        return self._write_and_look_back(given, shape)

    def _write_and_look_back(self, given: Mapping[str, object], shape: _Shape) -> str:
        plain: dict[str, object] = {}
        for name, value in given.items():
            member = shape.member(name)
            plain[name] = member.codec.to_plain(value, member.path)
        whole: object = plain if shape.whole is None else plain[shape.whole]
        text = jsontext.write(whole, f"the payload of {self._task}")
        self._check_size(text)
        self._check_round_trip(given, text)
        return text

    def load(self, payload: JsonValue) -> dict[str, Any]:
        """Return the keyword arguments that a payload stands for. Raises `PayloadError` when it does not
        fit."""
        shape = self._shape or self.shape()
        if not isinstance(payload, dict):
            raise PayloadError(f"the payload of {self._task} is no object")
        if shape.whole is not None:
            return {shape.whole: shape.member(shape.whole).codec.structure(payload, "$")}
        if payload.keys() != self._names:
            self._check_names(payload, shape)
        kwargs: dict[str, Any] = {}
        for name, value in payload.items():
            member = shape.members.get(name) or shape.member(name)
            # What needs no reading is not handed through two calls for it.
            exact = type(value) is member.codec.exact
            kwargs[name] = value if exact else member.codec.structure(value, member.path)
        return kwargs

    def call(self, ctx: JobContext | None, kwargs: Mapping[str, Any]) -> object:
        """Call the function, with the context first where it is wanted; else that may be None."""
        return self.function(ctx, **kwargs) if self.wants_context else self.function(**kwargs)

    def shape(self) -> _Shape:
        """Return the resolved types; raises `ConfigError` for one that is unknown or has no form in JSON."""
        # Threads that come first at the same time may all do it; the result is the same.
        if self._shape is None:
            self._shape = self._resolve()
        return self._shape

    def _resolve(self) -> _Shape:
        hints = self._hints()
        codecs = {
            each.name: TypeCodec(hints.get(each.name, Any), f"parameter {each.name!r} of task {self._task!r}")
            for each in self._parameters
        }
        rest = codecs.pop(self._rest) if self._rest is not None else None
        single = next(iter(codecs)) if len(codecs) == 1 and rest is None else None
        whole = single if single is not None and codecs[single].is_record else None
        members = {
            name: _Member(each, "$" if name == whole else path_of(name)) for name, each in codecs.items()
        }
        return _Shape(members, rest, whole, {} if whole else _exact_members(hints, list(members)))

    def _hints(self) -> dict[str, object]:
        # Only of the payload: the context and what is returned may be imported for type checkers only.
        def carrier() -> None: ...

        carrier.__annotations__ = {
            each.name: each.annotation for each in self._parameters if each.annotation is not Parameter.empty
        }
        names = getattr(inspect.unwrap(self.function), "__globals__", {})
        try:
            return typing.get_type_hints(carrier, globalns=names)
        except Exception as error:
            raise ConfigError(
                f"the types of task {self._task!r} cannot be resolved: {error}",
                hint="import them outside `if TYPE_CHECKING:`",
            ) from error

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        # The usual calls first: `bind` would take longer than all the rest.
        given = dict(zip(self._by_position, args, strict=False)) if args else {}
        if len(args) == len(given) and given.keys().isdisjoint(kwargs):
            given.update(kwargs)
            if self._required <= given.keys() <= self._names:
                return given
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise PayloadError(f"{self._task} cannot be called so: {error}") from None
        return bound | bound.pop(self._rest, {}) if self._rest is not None else bound

    def _check_size(self, text: str) -> None:
        size = len(text) if text.isascii() else len(text.encode())
        if size > MAX_PAYLOAD_BYTES:
            raise PayloadError(
                f"the payload of {self._task} has {size} bytes, the cap is {MAX_PAYLOAD_BYTES}",
                hint="store it elsewhere and pass a reference",
            )

    def _check_round_trip(self, given: Mapping[str, object], text: str) -> None:
        shape = self.shape()
        restored = self.load(codec.from_json(text))
        for name, value in given.items():
            where = codec.find_difference(value, restored[name], shape.member(name).path)
            if where is not None:
                raise PayloadError(
                    f"the payload of {self._task} would come back changed at {where}",
                    path=where,
                    hint="declare the type of the parameter, or pass what it declares",
                )

    def _check_names(self, payload: Mapping[str, object], shape: _Shape) -> None:
        if shape.rest is None:
            for name in sorted(payload.keys() - self._names):
                raise PayloadError(f"{self._task} has no parameter {name!r}", path=path_of(name))
        for name in sorted(self._required - payload.keys()):
            raise PayloadError(f"{self._task} needs {name!r}", path=path_of(name))


def _exact_members(hints: Mapping[str, object], names: Sequence[str]) -> dict[str, tuple[str, exact.Writer]]:
    writers = {name: exact.writer_of(hints.get(name, Any)) for name in names}
    return {
        name: (f"{jsontext.string(name)}: ", writer) for name, writer in writers.items() if writer is not None
    }


def _write_exactly(given: Mapping[str, object], shape: _Shape) -> str | None:
    """Return the payload as JSON text, None when a value of it might not come back as it is, or is none at all."""
    if shape.whole is not None:
        return None
    members = []
    for name, value in given.items():
        found = shape.exact.get(name)
        if found is None:
            return None
        beginning, write = found
        try:
            members.append(beginning + write(value))
        except jsontext.Refused:
            return None
    return "{" + ", ".join(members) + "}"


def _is_context(first: Parameter) -> bool:
    declared = first.annotation
    if isinstance(declared, str):  # from __future__ import annotations
        return declared.rpartition(".")[2] == JobContext.__name__
    if declared is Parameter.empty:
        return first.name == "ctx"
    return isinstance(declared, type) and issubclass(declared, JobContext)
