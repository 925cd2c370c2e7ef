"""Which database, which schema, and what stands between: read once, from arguments and the environment.

==================  ==============================  =================================================
argument            environment                     meaning
==================  ==============================  =================================================
`dsn`               `TASKQ_DSN`, `DATABASE_URL`,    a libpq connection string or URL; parts it leaves
                    libpq's own `PG*`               open come from libpq (`PG*`, service, .pgpass)
`schema`            `TASKQ_SCHEMA`                  the schema of the jobs, `taskq`
`pooled`            `TASKQ_POOLED` (1, true, yes)   a pooler in transaction mode stands between
`listen_dsn`        `TASKQ_LISTEN_DSN`              a direct connection, for LISTEN and locks
==================  ==============================  =================================================

The string is handed to libpq whole; nothing of it is lost. The password appears in no message and no repr.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import psycopg
from attrs import field, frozen
from psycopg import conninfo

from taskq_sync.clock import Deadline
from taskq_sync.db.schema_name import DEFAULT, check_schema_name
from taskq_sync.errors import ConfigError

DEFAULT_TIMEOUT = 5.0
DEFAULT_POOL_SIZE = 2

# A peer that vanishes without a word is noticed after about 30 s of silence, or of unacknowledged data.
_LINK_DEFAULTS = {
    "keepalives": "1",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_LONGEST = 86400
_DRIVER_OF_SQLALCHEMY = re.compile(r"^(postgres(?:ql)?)\+\w+(?=://)")
_NO_DATABASE = (
    "no database is named: set TASKQ_DSN, DATABASE_URL or the PG* variables, "
    "or start one with `taskq-sync dev`"
)
_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off"})


def _positive(instance: object, attribute: object, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"timeout must be positive, it is {value!r}")


@frozen(kw_only=True)
class DatabaseConfig:
    """The settings of a `Database`; all are checked here, and nothing connects."""

    dsn: str = field(default="", repr=False)
    """A connection string or URL of libpq; empty means libpq's own defaults and `PG*`."""

    schema: str = field(default=DEFAULT)
    """The schema of the jobs."""

    pooled: bool = False
    """Whether a pooler in transaction mode (PgBouncer) stands between: then no session state, no prepared
    statements, no LISTEN."""

    listen_dsn: str | None = field(default=None, repr=False)
    """A direct connection when `pooled`, to LISTEN and to hold locks; None means that workers poll."""

    timeout: float = field(default=DEFAULT_TIMEOUT, validator=_positive)
    """Seconds that a call of the client may take, connecting included."""

    pool_size: int = DEFAULT_POOL_SIZE
    """The most connections that the client of one process keeps."""

    def __attrs_post_init__(self) -> None:
        check_schema_name(self.schema)
        if self.pool_size < 1:
            raise ConfigError(f"pool_size must be at least 1, it is {self.pool_size}")
        for dsn in (self.dsn, self.listen_dsn):
            if dsn is not None:
                _parse(dsn)

    @property
    def can_listen(self) -> bool:
        """Whether there is a direct connection, which can LISTEN and hold a lock."""
        return not self.pooled or self.listen_dsn is not None

    @property
    def target(self) -> str:
        """Where it connects, for messages: user, host and database as far as they are given. No password."""
        return _target(_parse(self.dsn))

    def conninfo(self, name: str, deadline: Deadline, *, listening: bool = False) -> str:
        """Return the full connection string for a connection called *name* that is made before *deadline*.

        What the DSN says goes before our defaults. libpq counts whole seconds per host, and at least 2.
        """
        given = _parse(self.listen_dsn if listening and self.listen_dsn is not None else self.dsn)
        hosts = 1 + str(given.get("host") or given.get("hostaddr") or "").count(",")
        ours: dict[str, str] = {**_LINK_DEFAULTS, "client_encoding": "utf8", "application_name": name}
        if "application_name" not in given and "PGAPPNAME" in os.environ:
            del ours["application_name"]
        merged = {**ours, **given, "client_encoding": "utf8"}
        if deadline.timeout is not None:
            wanted = int(given.get("connect_timeout") or 0) or _LONGEST
            merged["connect_timeout"] = str(max(2, min(wanted, int(deadline.remaining / hosts))))
        return conninfo.make_conninfo("", **merged)


def read_config(
    dsn: str | None = None,
    *,
    schema: str | None = None,
    pooled: bool | None = None,
    listen_dsn: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    pool_size: int = DEFAULT_POOL_SIZE,
    environ: Mapping[str, str] = os.environ,
) -> DatabaseConfig:
    """Return the settings: each from its argument, else from the environment, else the default.

    Raises `ConfigError` for what cannot be used.
    """
    if dsn is None:
        dsn = environ.get("TASKQ_DSN") or environ.get("DATABASE_URL") or ""
    if pooled is None:
        pooled = _flag(environ.get("TASKQ_POOLED", ""), "TASKQ_POOLED")
    if listen_dsn is None:
        listen_dsn = environ.get("TASKQ_LISTEN_DSN") or None
    return DatabaseConfig(
        dsn=dsn,
        schema=schema if schema is not None else environ.get("TASKQ_SCHEMA") or DEFAULT,
        pooled=pooled,
        listen_dsn=listen_dsn,
        timeout=timeout,
        pool_size=pool_size,
    )


def is_configured(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment names a database at all: `TASKQ_DSN`, `DATABASE_URL` or one of libpq's own."""
    names = ("TASKQ_DSN", "DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT")
    return any(environ.get(name) for name in names)


def advice(config: DatabaseConfig) -> str | None:
    """Return what to do when nothing answers, if that is plain: nobody has named a database. Else None."""
    return None if config.dsn or is_configured() else _NO_DATABASE


def _parse(dsn: str) -> dict[str, str]:
    # SQLAlchemy's spelling of a URL, which DATABASE_URL often has.
    dsn = _DRIVER_OF_SQLALCHEMY.sub(r"\1", dsn)
    try:
        given = {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}
    except (psycopg.Error, ValueError):  # a ValueError for NUL and lone surrogates
        # libpq's message quotes the string, password and all.
        raise ConfigError(
            "the DSN is no connection string of PostgreSQL",
            hint="write postgresql://user:password@host:port/database, with special characters as %XX",
        ) from None
    if "@" in given.get("host", ""):
        raise ConfigError(
            "the DSN has an '@' in its host", hint="write an '@' in the user name or password as %40"
        )
    if not re.fullmatch(r"|\s*[+-]?[0-9]{1,9}\s*", given.get("connect_timeout", "")):
        raise ConfigError(
            "connect_timeout in the DSN is no number of seconds", hint="write connect_timeout=5"
        )
    return given


def _target(given: Mapping[str, str]) -> str:
    host = given.get("host") or given.get("hostaddr") or given.get("service") or "the default host"
    port = f":{given['port']}" if "port" in given else ""
    database = f"/{given['dbname']}" if "dbname" in given else ""
    user = f"{given['user']}@" if "user" in given else ""
    return f"{user}{host}{port}{database}"


def _flag(text: str, name: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in _YES | _NO:
        raise ConfigError(f"{name} must be 1 or 0, it is {text!r}")
    return lowered in _YES
