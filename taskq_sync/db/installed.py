"""What a database holds under the name of the schema."""

from __future__ import annotations

import re
from typing import TypeAlias

import psycopg
from attrs import frozen

from taskq_sync.db.schema_name import rewrite
from taskq_sync.errors import SchemaError

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"


@frozen(kw_only=True)
class SchemaState:
    """What is installed, if anything.

    *exists*: there is a schema of the name, maybe an empty one. *version*, *min_client*: None where nothing is
    installed. *fingerprint*: None for a role that may not read the settings. *migration*: the last numbered
    migration that the tables have. *up_to_date*: `migrate` would change nothing; without a fingerprint it
    compares the versions only.
    """

    exists: bool
    version: str | None = None
    min_client: str | None = None
    fingerprint: str | None = None
    migration: int = 0
    up_to_date: bool = False

    @property
    def installed(self) -> bool:
        """True when the schema is one of jobs."""
        return self.version is not None


def read_state(conn: Connection, schema: str, *, version: str, fingerprint: str) -> SchemaState:
    """Return what the database holds, compared with *version* and *fingerprint*; two short reads at most.

    Raises `SchemaError` if the role may not even ask, or something else lives under the name.
    """
    found = conn.execute(_LOOK, {"schema": schema}).fetchone()
    if found is None:
        return SchemaState(exists=False)
    is_ours, may_use, may_read, stranger = found
    if not is_ours and stranger is None:
        return SchemaState(exists=True)
    if not is_ours:
        raise SchemaError(
            f"schema {schema} in {where(conn)} holds {stranger} but no jobs of taskq-sync",
            hint="choose another name with --schema",
        )
    if not may_use:
        raise SchemaError(
            f"role {conn.info.user} may not use schema {schema} in {where(conn)}",
            hint="connect as the owner of the schema, or have it grant the role what it needs",
        )
    if may_read:
        return _read_settings(conn, schema, version, fingerprint)
    return _ask_version(conn, schema, version)


def require_client(min_client: str, *, version: str, what: str) -> None:
    """Raise `SchemaError` if a client of *version* is older than the *min_client* that *what*, the schema, asks for."""
    if release(min_client) > release(version):
        raise SchemaError(
            f"{what} needs taskq-sync {min_client} or newer, this is {version}",
            hint=f"upgrade with `pip install 'taskq-sync>={min_client}'`",
        )


def release(version: str) -> tuple[int, ...]:
    """Return the numbers a version begins with: (0, 3, 0) for 0.3.0 and for 0.3.0rc1."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def where(conn: Connection) -> str:
    """Name the database of a connection for a message, without anything secret."""
    return f"database {conn.info.dbname}"


def raw(text: str) -> bytes:
    """Return SQL of our own to be sent as it stands; for text, psycopg's types ask for a literal."""
    return text.encode()


def _read_settings(conn: Connection, schema: str, version: str, fingerprint: str) -> SchemaState:
    row = conn.execute(raw(rewrite(_READ, schema))).fetchone()
    if row is None:
        raise SchemaError(f"table settings of schema {schema} in {where(conn)} has lost its one row")
    installed, min_client, installed_fingerprint, migration = row
    return SchemaState(
        exists=True,
        version=str(installed),
        min_client=str(min_client),
        fingerprint=str(installed_fingerprint),
        migration=int(str(migration)),
        up_to_date=(installed, installed_fingerprint) == (version, fingerprint),
    )


def _ask_version(conn: Connection, schema: str, version: str) -> SchemaState:
    try:
        row = conn.execute(raw(rewrite(_ASK, schema))).fetchone()
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f"role {conn.info.user}, schema {schema} in {where(conn)}: {error.diag.message_primary}",
            hint="connect as the owner of the schema, or have it grant the role what it needs",
        ) from error
    if row is None:
        raise SchemaError(f"table settings of schema {schema} in {where(conn)} has lost its one row")
    installed, min_client = map(str, row)
    return SchemaState(exists=True, version=installed, min_client=min_client, up_to_date=installed == version)


# Its own table of settings tells a schema of ours from one that somebody else filled.
_LOOK = """
select c.oid is not null,
       has_schema_privilege(n.oid, 'usage'),
       coalesce(has_table_privilege(c.oid, 'select'), false),
       (select case o.relkind when 'v' then 'view ' when 'S' then 'sequence ' else 'table ' end || o.relname
        from pg_class o where o.relnamespace = n.oid order by o.relname limit 1)
from pg_namespace n
left join pg_class c on c.relnamespace = n.oid and c.relname = 'settings'
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'fingerprint')
where n.nspname = %(schema)s
"""

_READ = "select version, min_client, fingerprint, migration from taskq.settings"

_ASK = "select version, min_client from taskq.schema_version()"
