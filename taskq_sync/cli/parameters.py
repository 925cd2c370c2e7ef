"""Types of options: spans of time, sizes, instants, lists of names, JSON objects. Click names metavars after them.

And the two options that every operator's command has.
"""

from __future__ import annotations

import getpass
import json
import re
from datetime import datetime, timedelta

import click

from taskq_sync.model import JsonValue

_EXAMPLE = '{"user_id": 7}'

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> timedelta:
    """Return a span of time: a number and ms, s, m, h or d; seconds without a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)(ms|s|m|h|d|)", text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is no span of time: write 90, 90s, 1.5m, 2h or 1d")
    try:
        return timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long") from None


def size(text: str) -> int:
    """Return bytes: a number and KB, MB, GB or TB, each 1024 times the one before; bytes without a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(?:([kmgt])(?:i?b)?|b|)", text.strip().lower())
    if found is None:
        raise click.BadParameter(f"{text!r} is no size: write 512MB or 1.5GB")
    try:
        return int(float(found[1]) * 1024.0 ** (" kmgt".index(found[2]) if found[2] else 0))
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too large") from None


def instant(text: str) -> datetime:
    """Return an aware datetime from ISO 8601."""
    try:
        # Python 3.10 does not read the Z.
        read = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no instant: write 2026-03-01T04:30:00+01:00") from None
    if read.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no offset: put Z or +01:00 behind it")
    return read


def names(text: str) -> tuple[str, ...]:
    """Return names that have commas between them, in their order."""
    return tuple(part for part in (each.strip() for each in text.split(",")) if part)


def weighted_names(text: str) -> dict[str, int]:
    """Return names that have commas between them, in their order, each with the weight behind its last colon."""
    weights: dict[str, int] = {}
    for each in names(text):
        found = re.fullmatch(r"(.+):([0-9]+)", each)
        name, weight = (found[1], int(found[2])) if found else (each, 1)
        if weight < 1:
            raise click.BadParameter(
                f"the weight of {name!r} must be at least 1; a name may end so: {each}:1"
            )
        if weights.setdefault(name, weight) != weight:
            raise click.BadParameter(f"{name!r} has two weights, {weights[name]} and {weight}")
    return weights


def json_object(text: str, argument: str | None = None) -> dict[str, JsonValue]:
    """Return a JSON object. A message names the *argument*, where click does not know it."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(
            f"this is no JSON: {error}; write an object such as '{_EXAMPLE}'", param_hint=argument
        ) from None
    if not isinstance(read, dict):
        raise click.BadParameter(f"this is no JSON object such as '{_EXAMPLE}'", param_hint=argument)
    return read


def actor_name() -> str:
    """Return whom the audit names for a command: the user of the machine."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user without a name
        return "cli"


takes_actor = click.option(
    "--actor", default=actor_name, help="Who; kept in the audit. Default: your user name."
)
takes_reason = click.option("--reason", help="Why; kept in the audit.")
