"""The database of a run: its sessions, its clock, and all that is committed, as plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import psycopg
from attrs import define, field
from psycopg.rows import dict_row

from kit.contract import Clock, Connection
from model.script import Script, call
from model.specification import Refused, Row, Specification

#: The sessions differ in what must make no difference.
SETTINGS = (
    ("timezone = 'UTC'", "plan_cache_mode = auto", "intervalstyle = postgres", "datestyle = 'ISO, MDY'"),
    (
        "timezone = 'Europe/Berlin'",
        "plan_cache_mode = force_generic_plan",
        "intervalstyle = iso_8601",
        "datestyle = 'German, DMY'",
    ),
    (
        "timezone = 'America/St_Johns'",
        "plan_cache_mode = force_custom_plan",
        "intervalstyle = sql_standard",
        "datestyle = 'SQL, MDY'",
    ),
)
#: What a queue may say.
POLICIES = (
    *("max_attempts", "backoff", "backoff_max", "lease", "ttl", "aging", "max_depth"),
    *("retention_succeeded", "retention_cancelled", "retention_failed"),
)
#: These draw the jitter of a backoff.
_RANDOM = {"settle", "fail", "take_back", "housekeep"}

_TABLES = {
    "jobs": """
        select v.*, coalesce(r.is_unique, x.is_unique, f.is_unique) as keyed, x.lease as claimed_lease, j.unique_scope
        from taskq.job_view v
        join taskq.jobs j on j.id = v.id
        left join taskq.ready r on r.id = v.id
        left join taskq.running x on x.id = v.id
        left join taskq.finished f on f.id = v.id
        order by v.id
    """,
    "attempts": "select * from taskq.attempt_view order by attempt_id, job_id",
    "keys": "select queue, key, job_id, waiting, expires_at, free from taskq.unique_keys order by job_id",
    "queues": f'select name, version, paused_at, {", ".join(POLICIES)} from taskq.queues order by name collate "C"',
    "limits": 'select key, max_running from taskq.concurrency_limits order by key collate "C"',
    "signals": "select distinct key collate \"C\" as key from taskq.signals where kind = 'key' order by 1",
    "presence": """
        select worker_id, info, started_at, seen_at, stop_requested from taskq.workers order by worker_id collate "C"
    """,
    "sleepers": 'select worker_id, queues, wakes_at from taskq.sleepers order by worker_id collate "C"',
    "audit": "select at, actor, session_role, verb, target, reason, detail from taskq.audit order by id",
    "settings": """
        select s.strict_queues, (select p.last_at from taskq.passes p where p.name = 'take_back') as last_take_back
        from taskq.settings s
    """,
}

Tables = dict[str, list[Row]]


def tables_of(spec: Specification) -> Tables:
    """Return what the database should hold, in the form of `Database.read`."""
    return {
        "jobs": [vars(job) for _, job in sorted(spec.jobs.items())],
        "attempts": [vars(attempt) for _, attempt in sorted(spec.attempts.items())],
        "keys": [
            {"queue": queue, "key": name, "job_id": key.job_id, "waiting": key.waiting}
            | {"expires_at": key.expires_at, "free": key.free}
            for (queue, name), key in sorted(spec.keys.items(), key=lambda each: each[1].job_id)
        ],
        "queues": [
            {"name": name, "version": row.version, "paused_at": row.paused_at}
            | {policy: row.policy.get(policy) for policy in POLICIES}
            for name, row in sorted(spec.queues.items())
        ],
        "limits": [{"key": key, "max_running": limit} for key, limit in sorted(spec.limits.items())],
        "signals": [{"key": key} for key in sorted(spec.signals)],
        "presence": [row for _, row in sorted(spec.presence.items())],
        "sleepers": [row for _, row in sorted(spec.sleepers.items())],
        "audit": spec.audit,
        "settings": [{"strict_queues": spec.strict_queues, "last_take_back": spec.last_take_back}],
    }


@define
class Database:
    """Sessions of one database, which is this object's alone; what they send is written into the script."""

    conns: list[Connection]
    observer: Connection
    clock: Clock
    script: Script = field(factory=Script)
    _columns: dict[str, list[str]] = field(init=False)
    _query: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._columns = {
            name: [each.name for each in self.observer.execute(f"{query} limit 0".encode()).description or ()]
            for name, query in _TABLES.items()
        }
        self._query = "select " + ", ".join(
            f"array(select row(t.*) from ({query}) t)" for query in _TABLES.values()
        )
        self.observer.execute("set timezone = 'UTC'")
        for conn, settings in zip(self.conns, SETTINGS, strict=False):
            conn.execute("set statement_timeout = '20s'; " + "; ".join(f"set {each}" for each in settings))

    def begin(self, now: datetime) -> None:
        """Empty all tables, let the numbers begin anew, and begin a new script."""
        for conn in self.conns:
            conn.execute("select pg_advisory_unlock_all()")
        self.observer.execute(_CLEAR)
        self.script = Script()
        self.set_clock(now)

    def set_clock(self, now: datetime) -> None:
        """Let the clock of the schema stand at *now*."""
        self.clock.stand_at(now)
        self.script.add(self.clock.statement, session="the clock")

    def call(self, session: int, function: str, arguments: Mapping[str, Any]) -> list[Row] | Refused:
        """Call a function of the contract and return its rows, or the refusal."""
        if function in _RANDOM:
            self._send(session, f"select setseed({self.script.statements % 100 / 100})")
        try:
            rows = self._send(session, call(function, arguments))
        except psycopg.Error as error:
            self.script.refused(str(error.sqlstate))
            if not str(error.sqlstate).startswith("TQ"):
                raise
            return Refused(error.sqlstate)
        self.script.answered(rows)
        return rows

    def _send(self, session: int, statement: str) -> list[Row]:
        self.script.add(statement, session=f"session {session}", settings=SETTINGS[session])
        # in binary, as the text of instants and durations depends on the settings
        cursor = self.conns[session].cursor(row_factory=dict_row, binary=True)
        return cursor.execute(statement.encode()).fetchall()

    def read(self) -> Tables:
        """Return all that is committed, by the names of `tables_of`."""
        cursor = self.observer.cursor(binary=True)
        [tables] = cursor.execute(self._query.encode(), prepare=True).fetchall()
        return {
            name: [dict(zip(columns, row, strict=True)) for row in rows]
            for (name, columns), rows in zip(self._columns.items(), tables, strict=True)
        }

    def findings(self) -> list[Row]:
        """Return those of check_integrity()."""
        return self.observer.cursor(row_factory=dict_row).execute(_FINDINGS_QUERY).fetchall()


def differences(expected: Tables, found: Tables) -> Iterable[str]:
    """Say in which tables, rows and columns the database is not as it should be."""
    for table, rows in found.items():
        if len(rows) != len(expected[table]):
            yield f"{table}: {len(expected[table])} rows are expected, and there are {len(rows)}:"
            yield from (f"  expected {row}" for row in expected[table])
            yield from (f"  there is {row}" for row in rows)
        else:
            for should, row in zip(expected[table], rows, strict=True):
                yield from (f"{table}: {each}" for each in differing(should, row))


def differing(should: Row, row: Row) -> Iterable[str]:
    """Say which columns of a row are not as they should be."""
    wrong = {name: value for name, value in row.items() if name not in should or should[name] != value}
    if wrong:
        expected = {name: should.get(name, "no such column") for name in wrong}
        yield f"expected {expected} and there is {wrong} in {row}"


_FINDINGS_QUERY = "select job_id, problem from taskq.check_integrity()"

_CLEAR = """
delete from taskq.jobs; delete from taskq.ready; delete from taskq.running; delete from taskq.finished;
delete from taskq.attempts; delete from taskq.unique_keys; delete from taskq.queues; delete from taskq.signals;
delete from taskq.concurrency_limits; delete from taskq.workers; delete from taskq.sleepers; delete from taskq.audit;
delete from taskq.passes; update taskq.settings set strict_queues = false;
select setval('taskq.jobs_id_seq', 1, false), setval('taskq.fence', 1, false);
"""
