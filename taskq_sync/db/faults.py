"""What an error of the database means, decided by its SQLSTATE.

The class says too little: psycopg raises `OperationalError` both for a lost link and for a value that
exceeds a limit of the server (class 54). An error *without* a SQLSTATE comes from the client side of the
link.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import psycopg

from taskq_sync.errors import (
    BrokenInvariant,
    ConfigError,
    DatabaseUnavailable,
    InvalidInput,
    JobNotFound,
    QueueFull,
    SchemaError,
    TaskQError,
    WrongState,
)

_CONTRACT: Mapping[str, type[TaskQError]] = {
    "TQ001": JobNotFound,
    "TQ409": WrongState,
    "TQ422": InvalidInput,
    "TQ429": QueueFull,
    "TQ500": BrokenInvariant,
    "TQ501": SchemaError,
}

# The server ended the session, or a node is no longer (or not yet) the one to talk to. After any of these the
# connection is given up: a pooled one to a demoted primary would fail for ever (25006).
_SESSION_ENDED = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04", "25006"})

# The statement was undone for a reason that passes.
_UNDONE = frozenset(
    {
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "55P03",  # lock_not_available
        "57014",  # query_canceled: statement_timeout, or our deadline
        "XX000",  # internal_error: "tuple concurrently updated" during a migration
    }
)

# A pooler in transaction mode gave this session a server on which the statement was not prepared, or was.
_NOT_POOLED = frozenset({"26000", "42P05"})

# What the other errors mean, by the first two characters.
_CLASSES: Mapping[str, type[TaskQError]] = {
    "22": InvalidInput,  # data exception
    "23": InvalidInput,  # integrity constraint violation
    "54": InvalidInput,  # program limit exceeded: a value is too large for the server itself
    "3F": SchemaError,  # no such schema
    "42": SchemaError,  # no such function or column
    "08": DatabaseUnavailable,  # connection
    "25": DatabaseUnavailable,  # a read-only node, an ended transaction
    "28": DatabaseUnavailable,  # login
    "3D": DatabaseUnavailable,  # no such database
    "40": DatabaseUnavailable,  # rolled back
    "53": DatabaseUnavailable,  # out of resources
    "55": DatabaseUnavailable,  # locked
    "57": DatabaseUnavailable,  # cancelled, shutting down
    "58": DatabaseUnavailable,  # system error
    "XX": DatabaseUnavailable,  # internal error
}

# A refused login has no SQLSTATE in libpq, only words. In another language it is taken for a fault that
# passes, and costs the caller the time to its deadline.
_REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|certificate"
    r'|(?:database|role) ".*" (?:does not exist|is not permitted)|does not support SSL'
)

_MIGRATE = "install or upgrade the schema with `taskq-sync migrate`, and --schema where its name is not taskq"
_SCHEMA_HINTS = {
    "3F000": _MIGRATE,
    "42883": _MIGRATE,
    "42P01": _MIGRATE,
    "42703": _MIGRATE,
    "42501": "have the owner of the schema grant the role USAGE on it and EXECUTE on the functions it calls",
}

_ORDINAL = re.compile(r"\bordinal (\d+)")
_DEPTH = re.compile(r"\bdepth (\d+)")


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error of psycopg, psycopg2 or SQLAlchemy (or of the library), or None."""
    inner = getattr(error, "orig", None) or error
    state = getattr(inner, "sqlstate", None) or getattr(inner, "pgcode", None)
    return state if isinstance(state, str) else None


def contract_error(error: BaseException) -> TaskQError | None:
    """Return the library's error for one that the functions of the schema raised themselves, else None."""
    state = sqlstate_of(error)
    kind = _CONTRACT.get(state) if state is not None else None
    if kind is None:
        return None
    diag = getattr(getattr(error, "orig", None) or error, "diag", None)
    message = getattr(diag, "message_primary", None) or str(error)
    hint = getattr(diag, "message_hint", None)
    detail = getattr(diag, "message_detail", None) or ""
    if kind is InvalidInput:
        return InvalidInput(message, ordinal=_number(_ORDINAL, detail), hint=hint, sqlstate=state)
    if kind is QueueFull:
        return QueueFull(message, depth=_number(_DEPTH, detail), hint=hint, sqlstate=state)
    return kind(message, hint=hint, sqlstate=state)


def _number(pattern: re.Pattern[str], detail: str) -> int | None:
    found = pattern.search(detail)
    return int(found[1]) if found else None


def translate(error: psycopg.Error, what: str) -> TaskQError:
    """Return the library's error for *error*, which came up while the library did *what* ("claim").

    The caller raises it from *error*. In all cases nothing was done, unless the link broke after sending: the
    caller knows that and says `OutcomeUnknown` instead.
    """
    known = contract_error(error)
    if known is not None:
        return known
    state = sqlstate_of(error)
    message = f"could not {what}: {said_by(error)}"
    if isinstance(error, psycopg.DataError) and state is None:  # NUL in a text
        return InvalidInput(message)
    if state is None:
        refused = isinstance(error, psycopg.ProgrammingError)  # a conninfo or a parameter that cannot be sent
        return ConfigError(message) if refused else DatabaseUnavailable(message)
    if state in _NOT_POOLED:
        hint = "a pooler in transaction mode stands between: set pooled=True or TASKQ_POOLED=1"
        return ConfigError(message, hint=hint, sqlstate=state)
    kind = _CLASSES.get(state[:2], BrokenInvariant)
    return kind(message, hint=_SCHEMA_HINTS.get(state) if kind is SchemaError else None, sqlstate=state)


def is_connection_fault(error: BaseException) -> bool:
    """Whether the connection on which *error* came up must be given up.

    True for errors without a SQLSTATE that came from the link, for class 08, and where the server ended the
    session or has become read-only.
    """
    state = sqlstate_of(error)
    if state is not None:
        return state.startswith("08") or state in _SESSION_ENDED
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, DatabaseUnavailable, OSError))


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed in a moment: the link broke, or the server undid the statement.

    False for a refused login and for whatever else fails in the same way each time.
    """
    state = sqlstate_of(error)
    if state is None:
        return is_connection_fault(error) and not _REFUSED.search(str(error))
    return state[:2] in ("08", "53") or state in _SESSION_ENDED or state in _UNDONE


def said_by(error: BaseException) -> str:
    """Return the message of an error in one line."""
    diag = getattr(error, "diag", None)
    return getattr(diag, "message_primary", None) or str(error).strip().partition("\n")[0]
