"""The SQL files of the contract, in the order in which they are applied.

`sql/` ships inside the wheel as `taskq_sync._sql`; in a checkout it lies beside the package. The order is fixed
by the folders, so no file has to say what it needs::

    schema.sql  types/  tables/  views/  functions/internal/  functions/<other>/  grants.sql

and by name inside a folder. `migrations/` (from the second release on) is apart: numbered files that change
types and tables of a schema that exists. `for_schema` gives the same files for another schema name.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from taskq_sync.db.schema_name import rewrite

_MIGRATION = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


@frozen
class SqlFile:
    """One file: *path* relative to `sql/` with forward slashes, and its *text*."""

    path: str
    text: str

    @property
    def name(self) -> str:
        """The name of the object the file defines: its file name without the extension."""
        return self.path.rpartition("/")[2].removesuffix(".sql")


@frozen
class Migration:
    """One numbered change of types and tables: *number* counts from 1."""

    number: int
    file: SqlFile


@frozen(kw_only=True)
class SqlFiles:
    """All files of one release, each group in the order of its application.

    *schema* is left out where the schema was made beforehand. *structure* (types and tables) is for a new schema
    only, *migrations* change it in one that exists. *views*, *functions* and *grants* are applied whenever any
    file has changed.
    """

    schema: SqlFile
    structure: tuple[SqlFile, ...]
    migrations: tuple[Migration, ...]
    views: tuple[SqlFile, ...]
    functions: tuple[SqlFile, ...]
    grants: SqlFile

    def for_schema(self, schema: str) -> SqlFiles:
        """Return the files with the token `taskq` rewritten for *schema*.

        Raises `ConfigError` for a name that may not be.
        """

        def one(file: SqlFile) -> SqlFile:
            return SqlFile(file.path, rewrite(file.text, schema))

        return SqlFiles(
            schema=one(self.schema),
            structure=tuple(map(one, self.structure)),
            migrations=tuple(Migration(each.number, one(each.file)) for each in self.migrations),
            views=tuple(map(one, self.views)),
            functions=tuple(map(one, self.functions)),
            grants=one(self.grants),
        )

    @property
    def latest_migration(self) -> int:
        """The number of the last migration, 0 when there is none; a new schema starts there."""
        return self.migrations[-1].number if self.migrations else 0

    @property
    def fingerprint(self) -> str:
        """The sha256 of all paths and texts, as 64 hex digits: equal fingerprints mean nothing to apply."""
        digest = hashlib.sha256()
        migrations = (each.file for each in self.migrations)
        for file in (self.schema, *self.structure, *migrations, *self.views, *self.functions, self.grants):
            for part in (file.path, file.text):
                data = part.encode()
                digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()


def shipped_files() -> SqlFiles:
    """Return the files that belong to this installation."""
    return read_files(sql_folder())


def sql_folder() -> Path:
    """Return the folder that holds the shipped files."""
    package = importlib.util.find_spec("taskq_sync._sql")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent
    # A checkout on sys.path without an installation.
    return Path(__file__).parents[2] / "sql"


def read_files(root: Path) -> SqlFiles:
    """Return the files under *root*, which is laid out as `sql/`.

    Raises `ValueError` for migrations that are not numbered 0001, 0002 and so on: this is a fault of the
    release, not of its user.
    """
    functions = root / "functions"
    others = sorted(each.name for each in functions.iterdir() if each.is_dir() and each.name != "internal")
    return SqlFiles(
        schema=_read(root, root / "schema.sql"),
        structure=_folders(root, ("types", "tables")),
        migrations=_migrations(root),
        views=_folders(root, ("views",)),
        functions=_folders(root, (f"functions/{each}" for each in ("internal", *others))),
        grants=_read(root, root / "grants.sql"),
    )


def _folders(root: Path, folders: Iterable[str]) -> tuple[SqlFile, ...]:
    paths = (path for folder in folders for path in sorted((root / folder).glob("*.sql")))
    return tuple(_read(root, path) for path in paths)


def _migrations(root: Path) -> tuple[Migration, ...]:
    found = []
    for expected, file in enumerate(_folders(root, ("migrations",)), start=1):
        match = _MIGRATION.fullmatch(file.path.removeprefix("migrations/"))
        if match is None or int(match[1]) != expected:
            raise ValueError(f"sql/{file.path} should be named {expected:04d}_<what>.sql")
        found.append(Migration(expected, file))
    return tuple(found)


def _read(root: Path, path: Path) -> SqlFile:
    return SqlFile(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
