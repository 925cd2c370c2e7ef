"""Installing the schema, bringing it up to date, and telling what is installed.

    schema = Schema("taskq")
    schema.migrate(connection)              # in one transaction; a second run changes nothing
    schema.check_client(connection)         # SchemaError if this package is too old for what is installed

A schema stores the version and the fingerprint of the files that made it, and the oldest client that may use it.
The package's version is the version of the schema. A client works with any schema, also a newer one, that does
not ask for a newer client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
from attrs import frozen
from psycopg import sql

from taskq_sync.db.schema_name import check_schema_name, rewrite
from taskq_sync.db.sqlfiles import SqlFile, SqlFiles, shipped_files
from taskq_sync.errors import SchemaError
from taskq_sync.version import __version__

#: The oldest client that may use the schema of this release. Raised when a function of the contract changes in a
#: way that an older client cannot stand.
MIN_CLIENT = "0.1.0"

#: How long a migration waits for a lock on a table or view when the role sets no `lock_timeout`. Whoever wants the
#: object after it waits behind it, so it may not be long.
LOCK_TIMEOUT = "10s"

_PERMISSION_DENIED = "42501"
_READ_ONLY = "25006"
_LOCK_TIMEOUT = "55P03"
_CANNOT_REPLACE = "42P13"


@frozen(kw_only=True)
class SchemaState:
    """What a database holds under the name of the schema.

    *version* and *min_client* are None where nothing is installed. *up_to_date* says that `migrate` would change
    nothing; for a role that may not read the settings it compares the versions only.
    """

    exists: bool
    version: str | None = None
    min_client: str | None = None
    migration: int = 0
    up_to_date: bool = False

    @property
    def installed(self) -> bool:
        """True when the schema is one of jobs."""
        return self.version is not None


@frozen(kw_only=True)
class Migrated:
    """What a call of `migrate` did: *before* is None for a new schema, *changed* False when nothing was to do."""

    changed: bool
    before: str | None
    version: str


class Schema:
    """The schema *name* as this package installs it.

    *files* and *version* are those of this package unless given. Raises `ConfigError` for a name that cannot be.
    Holds no connection and no state, so it may be shared by threads.
    """

    def __init__(
        self, name: str = "taskq", *, files: SqlFiles | None = None, version: str = __version__
    ) -> None:
        self.name = check_schema_name(name)
        self.version = version
        files = shipped_files() if files is None else files
        # The fingerprint is that of the files as shipped: the same release has one fingerprint under any name.
        self.fingerprint = files.fingerprint
        self._files = files.for_schema(name)

    def state(self, conn: psycopg.Connection[tuple[object, ...]]) -> SchemaState:
        """Return what the database holds; three short reads at most, no lock waited for.

        Raises `SchemaError` if the role may not even ask, or something else lives under the name.
        """
        found = conn.execute(_LOOK, {"schema": self.name}).fetchone()
        if found is None:
            return SchemaState(exists=False)
        is_ours, may_use, may_read, other = found
        if not is_ours:
            if other is not None:
                raise SchemaError(
                    f"schema {self.name} in {_where(conn)} holds {other} but is not a schema of jobs: "
                    "choose another name with --schema"
                )
            return SchemaState(exists=True)
        if not may_use:
            raise SchemaError(
                f"role {conn.info.user} may not use schema {self.name} in {_where(conn)}: "
                f"give it a role's functions with `taskq-sync grant {conn.info.user}`"
            )
        return self._read_settings(conn) if may_read else self._ask_version(conn)

    def check_client(self, conn: psycopg.Connection[tuple[object, ...]]) -> SchemaState:
        """Return the state if this package may work with what is installed.

        Raises `SchemaError` if nothing is installed or it asks for a newer client. A newer schema alone is no
        reason, and neither is one that is not up to date.
        """
        state = self.state(conn)
        if state.min_client is None:
            raise SchemaError(
                f"{_where(conn)} has no schema {self.name} of jobs: install it with `{self._migrate_command()}`"
            )
        if _release(state.min_client) > _release(self.version):
            raise SchemaError(
                f"schema {self.name} in {_where(conn)} needs taskq-sync {state.min_client} or newer, this is "
                f"{self.version}: upgrade with `pip install 'taskq-sync>={state.min_client}'`"
            )
        return state

    def migrate(self, conn: psycopg.Connection[tuple[object, ...]]) -> Migrated:
        """Install the schema or bring it up to date, all or nothing, and return what was done.

        *conn* has no transaction open. Any number of processes may call this at once: one works, the others wait
        for it under a transaction-level advisory lock and then find nothing to do. Locks on tables and views are
        waited for as long as the role's `lock_timeout` says, else `LOCK_TIMEOUT`. Works for the owner of the
        database, and in a schema made beforehand for a role that may create in it.

        Raises `SchemaError` if the schema is newer than this package, the role lacks a right or a lock was not
        to be had; then nothing has changed.
        SQL: everything under sql/.
        """
        state = self.state(conn)
        if not state.up_to_date:
            try:
                with conn.transaction():
                    state = self._migrate_locked(conn)
            except psycopg.Error as error:
                raise self._explain(conn, error) from error
            if not state.up_to_date:
                return Migrated(changed=True, before=state.version, version=self.version)
        return Migrated(changed=False, before=state.version, version=self.version)

    def script(self) -> str:
        """Return the SQL that installs the schema into a database without it, for psql and a DBA."""
        files = self._files
        parts = [
            f"-- taskq-sync {self.version}: installs schema {self.name} into a database that has none.\n"
            "-- Stop at the first error: psql -v ON_ERROR_STOP=1 -f FILE\n\nbegin;\n",
            ";\n".join([*_SETTINGS_LOCAL, rewrite(_LOCK, self.name)]) + ";\n",
            *(f"-- sql/{file.path}\n{file.text}" for file in self._steps(SchemaState(exists=False))),
            f"-- sql/{files.grants.path}\n{files.grants.text}",
            self._stamp() + ";\n\ncommit;\n",
        ]
        return "\n".join(parts)

    def _migrate_locked(self, conn: psycopg.Connection[tuple[object, ...]]) -> SchemaState:
        """Do the work inside the transaction and return the state found before it."""
        conn.execute("set transaction isolation level read committed")
        lock_timeout = conn.execute("select current_setting('lock_timeout')").fetchone()
        for statement in (*_SETTINGS_LOCAL, rewrite(_LOCK, self.name)):
            conn.execute(_raw(statement))
        # Another process may have migrated while this one waited: look again, under the lock.
        state = self.state(conn)
        if state.up_to_date:
            return state
        self._refuse_to_go_back(conn, state)
        if lock_timeout is not None:
            own = LOCK_TIMEOUT if lock_timeout[0] == "0" else lock_timeout[0]
            conn.execute("select set_config('lock_timeout', %s, true)", (own,))
        for file in self._steps(state):
            self._apply(conn, file, replace=state.installed)
        self._drop_superseded(conn)
        self._apply(conn, self._files.grants, replace=False)
        conn.execute(_raw(self._stamp()))
        return state

    def _steps(self, state: SchemaState) -> Iterator[SqlFile]:
        """The files that *state* needs, but for the grants."""
        files = self._files
        if not state.installed:
            if not state.exists:
                yield files.schema
            yield from files.structure
        else:
            yield from (each.file for each in files.migrations if each.number > state.migration)
        yield from files.views
        yield from files.functions

    def _apply(self, conn: psycopg.Connection[tuple[object, ...]], file: SqlFile, *, replace: bool) -> None:
        """Execute *file*; with *replace*, a routine whose result has changed is dropped first.

        PostgreSQL replaces the body of a function, never its output columns or parameter names.
        """
        if not (replace and file in self._files.functions):
            conn.execute(_raw(file.text))
            return
        try:
            with conn.transaction():
                conn.execute(_raw(file.text))
        except psycopg.Error as error:
            if error.sqlstate != _CANNOT_REPLACE:
                raise
            for signature in self._signatures(conn, [file.name]):
                conn.execute(_raw(f"drop routine {signature}"))
            conn.execute(_raw(file.text))

    def _drop_superseded(self, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        """Drop the old signatures of the declared routines.

        A parameter added makes a second routine of the same name, and calls of it would be ambiguous (42725).
        """
        declared = [file.name for file in self._files.functions]
        for signature in self._signatures(conn, declared, only_untouched=True):
            conn.execute(_raw(f"drop routine {signature}"))

    def _signatures(
        self, conn: psycopg.Connection[tuple[object, ...]], names: list[str], *, only_untouched: bool = False
    ) -> list[str]:
        """The routines of these names; *only_untouched*: that this transaction has not made or replaced."""
        rows = conn.execute(_ROUTINES, {"schema": self.name, "names": names, "untouched": only_untouched})
        return [str(row[0]) for row in rows]

    def _read_settings(self, conn: psycopg.Connection[tuple[object, ...]]) -> SchemaState:
        row = conn.execute(_raw(rewrite(_READ, self.name))).fetchone()
        if row is None:
            raise SchemaError(
                f"table {self.name}.settings in {_where(conn)} has lost its row: restore a backup"
            )
        version, min_client, fingerprint, migration = row
        return SchemaState(
            exists=True,
            version=str(version),
            min_client=str(min_client),
            migration=int(str(migration)),
            up_to_date=(version, fingerprint) == (self.version, self.fingerprint),
        )

    def _ask_version(self, conn: psycopg.Connection[tuple[object, ...]]) -> SchemaState:
        try:
            row = conn.execute(_raw(rewrite(_ASK, self.name))).fetchone()
        except psycopg.Error as error:
            raise self._explain(conn, error) from error
        if row is None:
            raise SchemaError(f"{self.name}.schema_version() in {_where(conn)} returned nothing")
        version, min_client = map(str, row)
        return SchemaState(
            exists=True, version=version, min_client=min_client, up_to_date=version == self.version
        )

    def _refuse_to_go_back(self, conn: psycopg.Connection[tuple[object, ...]], state: SchemaState) -> None:
        if state.version is not None and _release(state.version) > _release(self.version):
            raise SchemaError(
                f"schema {self.name} in {_where(conn)} has version {state.version}, newer than this taskq-sync "
                f"{self.version}: there is no way back, migrate with taskq-sync {state.version} or newer"
            )

    def _stamp(self) -> str:
        values = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(value))
            for column, value in (
                ("version", self.version),
                ("min_client", MIN_CLIENT),
                ("fingerprint", self.fingerprint),
                ("migration", self._files.latest_migration),
            )
        )
        return rewrite("update taskq.settings set ", self.name) + values.as_string(None)

    def _explain(self, conn: psycopg.Connection[tuple[object, ...]], error: psycopg.Error) -> SchemaError:
        """Return the error that says what to do; the transaction of *error* is over."""
        said = error.diag.message_primary or str(error).strip()
        where = _where(conn)
        if error.sqlstate == _PERMISSION_DENIED:
            advice = (
                f"migrate as the owner of the database, or have somebody who may run "
                f"`create schema {rewrite('taskq.', self.name)[:-1]} authorization {conn.info.user}` first"
            )
        elif error.sqlstate == _READ_ONLY:
            advice = "this is a standby or a read-only session, migrate on the primary"
        elif error.sqlstate == _LOCK_TIMEOUT:
            advice = f"nothing was changed; {self._blockers(conn)}"
        else:
            advice = "nothing was changed"
        return SchemaError(f"schema {self.name} in {where}: {said}; {advice}")

    def _blockers(self, conn: psycopg.Connection[tuple[object, ...]]) -> str:
        rows = conn.execute(_HOLDERS, {"schema": self.name}).fetchall()
        if not rows:
            return "the session that held the lock has let go, try again"
        named = ", ".join(
            f"pid {pid} ({application or 'unnamed'}, {state})" for pid, application, state in rows
        )
        return f"held up by {named}: end that transaction or try again"

    def _migrate_command(self) -> str:
        option = "" if self.name == "taskq" else f" --schema {self.name}"
        return f"taskq-sync migrate{option}"


#: Timeouts are for the statements of an application; a migration that is cut off would only be begun again.
_SETTINGS_LOCAL = (
    "set local statement_timeout = 0",
    "set local lock_timeout = 0",
    "set local idle_in_transaction_session_timeout = 0",
    "set local search_path = pg_catalog, pg_temp",
    "set local check_function_bodies = off",
    "set local client_min_messages = warning",
)

# `create or replace function` by two sessions fails with "tuple concurrently updated": the lock is not optional.
_LOCK = "select pg_advisory_xact_lock(hashtextextended('taskq.migrate', 0))"

_LOOK = """
select c.oid is not null,
       has_schema_privilege(n.oid, 'usage'),
       coalesce(has_table_privilege(c.oid, 'select'), false),
       (select format('%%s %%s', case o.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end,
                      o.relname)
        from pg_class o where o.relnamespace = n.oid order by o.relname limit 1)
from pg_namespace n
left join pg_class c on c.relnamespace = n.oid and c.relname = 'settings'
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'fingerprint')
where n.nspname = %(schema)s
"""

_READ = "select version, min_client, fingerprint, migration from taskq.settings"

_ASK = "select version, min_client from taskq.schema_version()"

# A row of the catalogue that this transaction or a sub-transaction of it wrote has an age of 0 or less.
_ROUTINES = """
select format('%%I.%%I(%%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname = %(schema)s and p.proname = any (%(names)s) and (not %(untouched)s or age(p.xmin) > 0)
"""

_HOLDERS = """
select distinct a.pid, a.application_name, a.state
from pg_locks l
join pg_class c on c.oid = l.relation
join pg_namespace n on n.oid = c.relnamespace
join pg_stat_activity a on a.pid = l.pid
where n.nspname = %(schema)s and l.granted and l.pid <> pg_backend_pid()
order by a.pid
"""


def _raw(text: str) -> bytes:
    """SQL from our own files, sent as it stands (the type of psycopg's `Query` for text is `LiteralString`)."""
    return text.encode()


def _where(conn: psycopg.Connection[tuple[object, ...]]) -> str:
    return f"database {conn.info.dbname}"


def _release(version: str) -> tuple[int, ...]:
    """The numbers a version begins with: (0, 3, 0) for 0.3.0 and for 0.3.0rc1."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
