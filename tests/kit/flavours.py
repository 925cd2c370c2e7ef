"""Databases of other kinds than most have: their encoding, collation, settings, and the name of the schema.

`TASKQ_TEST_FLAVOUR` names the one that the tests of a run get; `python -m tests.compatibility` runs them under
all. The tests are the same, and speak of the schema `taskq`. What they say is put into the words of the flavour
here: `taskq.` becomes the name of the schema, and results come in the binary format, since psycopg reads
instants and intervals as text in the usual style only.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg
import psycopg.types.json
import pytest
from attrs import field, frozen
from psycopg import pq, sql

from taskq_sync.db.schema import Schema
from taskq_sync.db.schema_name import DEFAULT, quoted, rewrite

_FLAVOUR = "TASKQ_TEST_FLAVOUR"


@frozen(kw_only=True)
class Flavour:
    """What is different about a database: how it is made, what its sessions begin with, and the schema's name."""

    options: str = ""
    """The options of `create database`."""

    settings: Mapping[str, str] = field(factory=dict)
    """The settings of the database, as an administrator makes them for all of its sessions."""

    schema: str = DEFAULT
    """The schema of the jobs."""

    client_encoding: str | None = None
    """What the tests ask for; the library always asks for UTF-8."""

    @property
    def needs_icu(self) -> bool:
        """Whether the server must have been built with ICU, which that of the extra `embedded` is not."""
        return "icu" in self.options


_C = "encoding 'SQL_ASCII' locale_provider libc locale 'C'"
_ICU = "encoding 'UTF8' locale_provider icu icu_locale '{}' locale 'C'"
_ST_JOHNS = {  # a zone with summer time and half an hour
    "timezone": "America/St_Johns",
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
}
_KATHMANDU = {
    "timezone": "Asia/Kathmandu",  # three quarters of an hour
    "datestyle": "German",
    "intervalstyle": "postgres_verbose",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
}

FLAVOURS = {
    "usual": Flavour(),
    "sql_ascii": Flavour(options=_C, client_encoding="utf8"),
    "libc_c": Flavour(options="encoding 'UTF8' locale_provider libc locale 'C'"),
    "icu": Flavour(options=_ICU.format("en-US")),
    "icu_turkish": Flavour(options=_ICU.format("tr-TR")),  # where I and i are no pair
    "st_johns": Flavour(settings=_ST_JOHNS),
    "kathmandu": Flavour(settings=_KATHMANDU),
    "iso_8601": Flavour(settings={"intervalstyle": "iso_8601", "datestyle": "Postgres, MDY"}),
    "quoted": Flavour(schema="Jobs-1.x"),
    "all_ascii": Flavour(options=_C, client_encoding="utf8", settings=_ST_JOHNS, schema="Jobs-1.x"),
    "all_icu": Flavour(options=_ICU.format("tr-TR"), settings=_KATHMANDU, schema="2.q-"),
}


def chosen() -> Flavour:
    """Return the flavour of this run."""
    name = os.environ.get(_FLAVOUR, "usual")
    if name not in FLAVOURS:
        raise ValueError(f"{_FLAVOUR}={name} is none of {', '.join(FLAVOURS)}")
    return FLAVOURS[name]


def is_usual() -> bool:
    """Whether this run has nothing special."""
    return chosen() == FLAVOURS["usual"]


def install() -> None:
    """Have all tests of this process speak in the words of the flavour, and the library know its schema."""
    if is_usual():
        return
    flavour = chosen()
    if flavour.client_encoding is not None:
        # such a database cannot tell which character an escape in a JSON text stands for
        psycopg.types.json.set_json_dumps(partial(json.dumps, ensure_ascii=False))
    if flavour.schema != DEFAULT:
        os.environ["TASKQ_SCHEMA"] = flavour.schema
    connect = psycopg.Connection.connect
    psycopg.connect = lambda *arguments, **options: connect(  # type: ignore[assignment]
        *arguments, **{"cursor_factory": _Cursor, **options}
    )


def schema() -> Schema:
    """Return the schema of jobs under the name of the flavour."""
    return Schema(chosen().schema)


def options() -> sql.SQL:
    """Return what `create database ... template template0` ends with."""
    return sql.SQL(chosen().options)  # type: ignore[arg-type]  # the literals above


def configure(admin: psycopg.Connection[Any], database: str) -> None:
    """Give *database* the settings of the flavour; a template does not hand them on."""
    for name, value in chosen().settings.items():
        admin.execute(
            sql.SQL("alter database {} set {} = {}").format(
                sql.Identifier(database), sql.Identifier(name), sql.Literal(value)
            )
        )


def dsn_options() -> dict[str, str]:
    """Return what the DSN of a database says besides its place."""
    encoding = chosen().client_encoding
    return {} if encoding is None else {"client_encoding": encoding}


#: What `rewrite` is not made for: names of the schema and of its channel as tests write them.
_CHANNEL = re.compile(r'(listen\s+)"taskq\.wake"')
_SEVERAL = re.compile(r";\s*\S")


def translated(query: str) -> str:
    """Return a statement of the tests for the schema of the flavour."""
    name = chosen().schema
    if name == DEFAULT:
        return query
    quotes = quoted(name)
    query = _CHANNEL.sub(lambda found: found[1] + '"' + f"{quotes}.wake".replace('"', '""') + '"', query)
    query = re.sub(r"'taskq'::regnamespace", f"'{quotes}'::regnamespace", query)
    query = re.sub(r"'taskq'", f"'{name}'", query)
    return rewrite(query, name)


#: A span of time in the usual style.
_SPAN = re.compile(r"-?\d+ days?(?: [-+]?[\d:.]+)?|-?\d\d:\d\d:\d\d[\d.]*")


def says(message: str, text: str) -> bool:
    """Whether a *message* of the database contains *text*, as it is in this flavour."""
    flavour = chosen()
    text = re.sub(r"\bschema taskq\b", f"schema {flavour.schema}", text)
    if "intervalstyle" not in flavour.settings:
        return text in message
    return re.search(".*".join(map(re.escape, _SPAN.split(text))), message) is not None


class _Cursor(psycopg.Cursor[Any]):
    """The cursor of the tests."""

    def __init__(self, connection: psycopg.Connection[Any], *, row_factory: Any = None) -> None:
        super().__init__(connection, row_factory=row_factory or connection.row_factory)
        self.format = pq.Format.BINARY

    def execute(self, query: Any, params: Any = None, **options: Any) -> _Cursor:
        """Run a statement in the words of the flavour."""
        if isinstance(query, bytes):
            query = query.decode()
        elif isinstance(query, sql.Composable):
            query = query.as_string(self.connection)
        if params is None and _SEVERAL.search(query):
            # the protocol takes several statements in the text format only
            self.format = pq.Format.TEXT
        super().execute(translated(query).encode(), params, **options)
        return self


usual_only = pytest.mark.skipif(
    not is_usual(), reason="reads what PostgreSQL writes as text, or makes a database of its own kind"
)
