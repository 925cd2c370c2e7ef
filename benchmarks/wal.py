"""What was written to the write-ahead log, by pg_walinspect: bytes without the images of whole pages, and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from attrs import frozen

#: The records that add an entry to a B-tree index; one that splits a page carries the entry along.
_INDEX_ENTRIES = ("Btree/INSERT_LEAF", "Btree/INSERT_POST", "Btree/SPLIT_L", "Btree/SPLIT_R")

#: The records of one row of a table each, written, changed or deleted.
_ROWS = ("Heap/INSERT", "Heap/UPDATE", "Heap/HOT_UPDATE", "Heap/DELETE")

_SHARE = """
select "resource_manager/record_type", count, record_size::bigint from pg_get_wal_stats(%s, %s, true) where count > 0
"""


@frozen(kw_only=True)
class Written:
    """What all sessions of the server wrote: bytes, rows of tables, and entries of indexes that were added.

    Images of whole pages, which follow a checkpoint, are not counted.
    """

    size: int
    rows: int
    index_entries: int


class Log:
    """The write-ahead log from now until it is asked. *conn* belongs to a superuser."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        conn.execute("create extension if not exists pg_walinspect")
        self._conn = conn
        self._slot = f"taskq_benchmark_{conn.info.backend_pid}"
        # while it is there no checkpoint removes what is to be read; it ends with the session at the latest
        conn.execute("select pg_create_physical_replication_slot(%s, true, true)", (self._slot,))
        self._began = self._end()

    def written(self) -> Written:
        """Return what was written since, to be called once, when no transaction that counts is open."""
        rows = self._conn.execute(_SHARE, (self._began, self._end())).fetchall()
        self._conn.execute("select pg_drop_replication_slot(%s)", (self._slot,))
        return Written(
            size=sum(int(size) for _, _, size in rows),
            rows=_count(rows, _ROWS),
            index_entries=_count(rows, _INDEX_ENTRIES),
        )

    def _end(self) -> str:
        # what is not on disk yet cannot be read; a commit that writes makes it so
        self._conn.execute("select pg_logical_emit_message(true, 'benchmark', '')")
        [(end,)] = self._conn.execute("select pg_current_wal_flush_lsn()::text").fetchall()
        return str(end)


def _count(rows: Sequence[tuple[str, int, int]], names: Sequence[str]) -> int:
    # the first row of a page has a name of its own, with +INIT
    return sum(count for name, count, _ in rows if name.removesuffix("+INIT") in names)
