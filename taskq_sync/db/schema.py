"""Installing the schema, bringing it up to date, and telling what is installed.

    schema = Schema("taskq")
    schema.migrate(connection)              # in one transaction; a second run changes nothing
    schema.check_client(connection)         # SchemaError if this package is too old for what is installed

A schema stores the version and the fingerprint of the files that made it, and the oldest client that may use
it. The package's version is the version of the schema. A client works with any schema, also a newer one, that
does not ask for a newer client.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from attrs import frozen
from psycopg import sql

from taskq_sync.db.installed import (
    Connection,
    SchemaState,
    raw,
    read_state,
    release,
    require_client,
    where,
)
from taskq_sync.db.schema_name import check_schema_name, quoted, rewrite
from taskq_sync.db.sqlfiles import SqlFile, SqlFiles, shipped_files
from taskq_sync.errors import ConfigError, SchemaError
from taskq_sync.version import __version__

__all__ = ["LOCK_TIMEOUT", "MIN_CLIENT", "Migrated", "Schema", "SchemaState"]

#: The oldest client that may use the schema of this release. Raised when a function of the contract changes in
#: a way that an older client cannot stand.
MIN_CLIENT = "0.1.0"

#: How long a migration waits for a lock on a table or view when the role sets no `lock_timeout`. Whoever wants
#: the object after it waits behind it, so it may not be long.
LOCK_TIMEOUT = "10s"


@frozen(kw_only=True)
class Migrated:
    """What a call of `migrate` did: *changed* is False when nothing was to do, *before* None for a new schema."""

    changed: bool
    before: str | None
    version: str


class Schema:
    """The schema *name* as this package installs it.

    *files* and *version* are those of this package unless given. Raises `ConfigError` for a name that cannot
    be. Holds no connection and no state, so threads may share it.
    """

    def __init__(
        self, name: str = "taskq", *, files: SqlFiles | None = None, version: str = __version__
    ) -> None:
        self.name = check_schema_name(name)
        self.version = version
        files = shipped_files() if files is None else files
        # Of the files as shipped: a release has one fingerprint under any name.
        self.fingerprint = files.fingerprint
        self._files = files.for_schema(name)

    def state(self, conn: Connection) -> SchemaState:
        """Return what the database holds; two short reads at most, no lock waited for.

        Raises `SchemaError` if the role may not even ask, or something else lives under the name.
        """
        return read_state(conn, self.name, version=self.version, fingerprint=self.fingerprint)

    def check_client(self, conn: Connection) -> SchemaState:
        """Return the state if this package may work with what is installed.

        Raises `SchemaError` if nothing is installed or it asks for a newer client. A newer schema alone is no
        reason, and neither is one that is not up to date.
        """
        state = self.state(conn)
        if state.min_client is None:
            option = "" if self.name == "taskq" else f" --schema {self.name}"
            raise SchemaError(
                f"{where(conn)} has no schema {self.name} of jobs",
                hint=f"install it with `taskq-sync migrate{option}`",
            )
        require_client(state.min_client, version=self.version, what=f"schema {self.name} in {where(conn)}")
        return state

    def migrate(self, conn: Connection) -> Migrated:
        """Install the schema or bring it up to date, all or nothing, and return what was done.

        *conn* is in autocommit. Any number of processes may call this at once: one works, the others wait for
        it under a transaction-level advisory lock and then find nothing to do. Locks on tables and views are
        waited for as long as the role's `lock_timeout` says, else `LOCK_TIMEOUT`. Works for the owner of the
        database, and in a schema made beforehand for its owner.

        Raises `SchemaError` if the schema is newer than this package, the role lacks a right or a lock was not
        to be had; then nothing has changed.
        SQL: everything under sql/.
        """
        if not conn.autocommit:
            raise ConfigError("a migration is a transaction of its own: hand in a connection in autocommit")
        state = self.state(conn)
        if not state.up_to_date:
            try:
                with conn.transaction():
                    state = self._migrate(conn)
            except _FileError as error:
                raise self._explain(conn, error.cause, f"sql/{error.path}: ") from error.cause
            except psycopg.Error as error:
                raise self._explain(conn, error, "") from error
        return Migrated(changed=not state.up_to_date, before=state.version, version=self.version)

    def script(self) -> str:
        """Return the SQL that installs the schema into a database without it, for psql and a DBA."""
        preface = (
            f"-- taskq-sync {self.version}: installs schema {self.name} where there is none, or an empty one.\n"
            "-- Stop at the first error: psql -v ON_ERROR_STOP=1 -f FILE"
        )
        begin = ["begin", *_SETTINGS, rewrite(_LOCK, self.name)]
        files = (*self._steps(SchemaState(exists=False)), self._files.grants)
        parts = [
            preface,
            "\n".join(f"{statement};" for statement in begin),
            *(f"-- sql/{file.path}\n\n{file.text.strip()}" for file in files),
            f"{self._stamp()};\ncommit;",
        ]
        return "\n\n".join(parts) + "\n"

    def _migrate(self, conn: Connection) -> SchemaState:
        """Do the work inside the transaction and return the state found before it."""
        conn.execute("set transaction isolation level read committed")
        patience = conn.execute("select current_setting('lock_timeout')").fetchone()
        for statement in (*_SETTINGS, rewrite(_LOCK, self.name)):
            conn.execute(raw(statement))
        # Another process may have migrated while this one waited for the lock.
        state = self.state(conn)
        if state.up_to_date:
            return state
        self._refuse_to_go_back(conn, state)
        timeout = LOCK_TIMEOUT if patience is None or patience[0] == "0" else patience[0]
        conn.execute("select set_config('lock_timeout', %s, true)", (timeout,))
        for file in self._steps(state):
            self._apply(conn, file, replace=state.installed and file in self._files.functions)
        self._drop_superseded(conn)
        self._apply(conn, self._files.grants)
        conn.execute(raw(self._stamp()))
        return state

    def _steps(self, state: SchemaState) -> Iterator[SqlFile]:
        """The files that *state* needs, but for the grants."""
        files = self._files
        if state.installed:
            yield from (each.file for each in files.migrations if each.number > state.migration)
        else:
            # Even `create schema if not exists` asks for the right to create schemas.
            yield from () if state.exists else (files.schema,)
            yield from files.structure
        yield from files.views
        yield from files.functions

    def _apply(self, conn: Connection, file: SqlFile, *, replace: bool = False) -> None:
        try:
            if replace:
                self._replace(conn, file)
            else:
                conn.execute(raw(file.text))
        except psycopg.Error as error:
            raise _FileError(file.path, error) from error

    def _replace(self, conn: Connection, file: SqlFile) -> None:
        """Execute the file of a function that may exist with other output columns or parameters.

        Output columns and names of parameters cannot be replaced (42P13). Other parameters make a second function of
        the name, and the comment of the file could be about either (42725). So the old one is dropped first.
        """
        try:
            with conn.transaction():
                conn.execute(raw(file.text))
        except (psycopg.errors.InvalidFunctionDefinition, psycopg.errors.AmbiguousFunction):
            for routine in self._routines(conn, [file.name]):
                conn.execute(raw(f"drop routine {routine}"))
            conn.execute(raw(file.text))

    def _drop_superseded(self, conn: Connection) -> None:
        """Drop the old signatures of declared routines.

        An added parameter makes a second routine of the same name, and calls would be ambiguous (42725).
        """
        declared = [file.name for file in self._files.functions]
        for routine in self._routines(conn, declared, only_untouched=True):
            conn.execute(raw(f"drop routine {routine}"))

    def _routines(self, conn: Connection, names: list[str], *, only_untouched: bool = False) -> list[str]:
        """The routines of these names; *only_untouched*: that this transaction neither made nor replaced."""
        rows = conn.execute(_ROUTINES, {"schema": self.name, "names": names, "untouched": only_untouched})
        return [str(row[0]) for row in rows]

    def _refuse_to_go_back(self, conn: Connection, state: SchemaState) -> None:
        if state.version is not None and release(state.version) > release(self.version):
            raise SchemaError(
                f"schema {self.name} in {where(conn)} has version {state.version}, newer than this taskq-sync "
                f"{self.version}, and there is no way back",
                hint=f"migrate with taskq-sync {state.version} or newer",
            )

    def _stamp(self) -> str:
        values = {
            "version": self.version,
            "min_client": MIN_CLIENT,
            "fingerprint": self.fingerprint,
            "migration": self._files.latest_migration,
        }
        assignments = (f"{column} = {sql.Literal(value).as_string(None)}" for column, value in values.items())
        return rewrite("update taskq.settings set ", self.name) + ", ".join(assignments)

    def _explain(self, conn: Connection, error: psycopg.Error, file: str) -> SchemaError:
        """Return the error that says what to do; called when the transaction is over."""
        said = error.diag.message_primary or str(error).strip()
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            hint = (
                f"migrate as the owner of the database, or have somebody who may create schemas run "
                f"`create schema {quoted(self.name)} authorization {conn.info.user}` first"
            )
        elif isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            hint = "this is a standby or a read-only session, migrate on the primary"
        elif isinstance(error, psycopg.errors.LockNotAvailable):
            hint = self._name_blockers(conn)
        else:
            hint = "nothing was changed"
        return SchemaError(
            f"cannot migrate schema {self.name} in {where(conn)}: {file}{said}",
            hint=hint,
            sqlstate=error.sqlstate,
        )

    def _name_blockers(self, conn: Connection) -> str:
        holders = conn.execute(_HOLDERS, {"schema": self.name}).fetchall()
        if not holders:
            return "whoever held the lock has let go of it, try again"
        named = ", ".join(
            f"pid {pid} ({application or 'unnamed'}, {state})" for pid, application, state in holders
        )
        return f"held up by {named}, end that transaction or try again"


class _FileError(Exception):
    """A file failed: carries its path and the driver's error out of the transaction."""

    def __init__(self, path: str, cause: psycopg.Error) -> None:
        super().__init__(path)
        self.path = path
        self.cause = cause


# Timeouts of a role are for the statements of an application; a migration that is cut off only begins again.
_SETTINGS = (
    "set local statement_timeout = 0",
    "set local lock_timeout = 0",
    "set local idle_in_transaction_session_timeout = 0",
    "set local search_path = pg_catalog, pg_temp",
    "set local check_function_bodies = off",
    "set local client_min_messages = warning",
)

# Two sessions that replace one function fail with "tuple concurrently updated": the lock is not optional.
_LOCK = "select pg_advisory_xact_lock(hashtextextended('taskq.migrate', 0))"

# A row of the catalogue that this transaction or one of its savepoints wrote has an age of 0 or less.
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
