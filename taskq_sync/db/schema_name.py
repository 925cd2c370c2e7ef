"""The name of the schema, and how it gets into SQL.

The SQL of the product is written for the schema `taskq`. For another schema one token is rewritten, by a rule
so plain that a DBA can do it with sed: `taskq.` becomes the quoted name and a dot, and `schema taskq` becomes
`schema` and the quoted name. The token also stands in the names that belong to the schema, such as the
notification channel `taskq.wake` and the advisory locks; so two schemas of one database never share one.
"""

from __future__ import annotations

import re

from taskq_sync.errors import ConfigError

DEFAULT = "taskq"

RULE = "1 to 48 letters (a to z, A to Z), digits, '_', '-' and '.', not beginning with 'pg_'"

_ALLOWED = re.compile(r"[A-Za-z0-9_.-]{1,48}")
# No keyword of SQL begins so, now or later; hence there is no list of keywords to keep.
_NEEDS_NO_QUOTES = re.compile(r"taskq[a-z0-9_]*")
_TOKEN = re.compile(r"\btaskq\.|\b(schema (?:if not exists )?)taskq\b")


def check_schema_name(schema: str) -> str:
    """Return *schema* if it may be the name of a schema of jobs.

    Raises `ConfigError`, which tells the rule. Case is kept: `Jobs` and `jobs` are two schemas.
    """
    if not _ALLOWED.fullmatch(schema) or schema.lower().startswith("pg_"):
        raise ConfigError(f"{schema!r} cannot be the name of the schema: a name has {RULE}")
    return schema


def quoted(schema: str) -> str:
    """Return *schema* as it stands in SQL and in channel names: in double quotes, unless it begins with
    `taskq` and is plain lower case."""
    check_schema_name(schema)
    return schema if _NEEDS_NO_QUOTES.fullmatch(schema) else f'"{schema}"'


def rewrite(sql: str, schema: str) -> str:
    """Return *sql*, written for the schema `taskq`, for *schema*."""
    if schema == DEFAULT:
        return sql
    name = quoted(schema)
    return _TOKEN.sub(lambda found: f"{found[1]}{name}" if found[1] else f"{name}.", sql)
