"""What keys cost: buffers in proportion to the jobs of a call, whatever holds keys or waits for them.

Beside 50,000 jobs that a full key holds up, 50,000 ordered ones of one key, and 50,000 unique keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import psycopg
import pytest
from attrs import frozen

from kit.contract import Contract, Row
from kit.databases import Databases
from kit.plans import WARM_UP, buffers

JAM = 50_000


@frozen
class Jam:
    """A database with the jobs of the module, and a session whose plans were made before there were any."""

    dsn: str
    oldest: Contract


def _fill(sql: Contract, name: str, rows: int) -> None:
    """Store waiting jobs as enqueue and claims would: of a full key, of an ordered one, and with unique keys."""
    sql.run(
        """
        with job as (
          insert into taskq.jobs (queue, task, payload, priority, unique_key, concurrency_key, max_attempts, backoff,
                                  backoff_max, lease, created_at, enqueued_by)
          select q, 't', '{}', 0, case q when 'unique' then %s || n end, nullif(q, 'unique'), 5, '30 s', '1 h', '60 s',
            taskq.clock(), user
          from unnest(array['unique', 'jam', 'row']) as q, generate_series(1, %s) as n
          returning id, queue, task, priority, unique_key, concurrency_key, created_at),
        keyed as (
          insert into taskq.unique_keys (queue, key, job_id, waiting)
          select queue, unique_key, id, true from job where unique_key is not null)
        insert into taskq.ready (
          id, queue, task, priority, scheduled_at, concurrency_key, hold, is_unique, is_ordered)
        select id, queue, task, priority, created_at + case queue when 'unique' then interval '1 day' else '0' end,
          concurrency_key, case queue when 'jam' then 'key' when 'row' then 'order' end, queue = 'unique', queue = 'row'
        from job
        """,
        name,
        rows,
    )


@pytest.fixture(scope="module")
def jam(databases: Databases) -> Iterator[Jam]:
    with databases.copy() as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        sql = Contract(conn)
        for table in ("jobs", "ready", "running", "finished", "unique_keys", "signals", "concurrency_limits"):
            sql.run(f"alter table taskq.{table} set (autovacuum_enabled = off)")  # no other statistics
        _fill(sql, "few", 100)
        sql.run(
            "select taskq.sleep_until('s', array['jam', 'row', 'unique'], taskq.clock() + interval '1 day')"
        )
        sql.run("analyze")
        for call, _ in CALLS.values():
            for _ in range(WARM_UP):
                sql.rows(f"select * from taskq.{call(sql)}")
        _fill(sql, "many", JAM)
        yield Jam(dsn, sql)


def _keys(sql: Contract, count: int) -> list[str]:
    """Return unique keys whose jobs wait."""
    rows = sql.rows(
        """
        select key from taskq.unique_keys where queue = 'unique' and not free and expires_at is null
        order by job_id desc limit %s
        """,
        count,
    )
    return [row["key"] for row in rows]


def _enqueue(sql: Contract, keys: list[str], **properties: object) -> str:
    jobs = [{"task": "t", "unique_key": key, "delay": 86400, **properties} for key in keys]
    return f"enqueue_many('unique', '{json.dumps(jobs)}')"


def _existing(count: int, **properties: object) -> Callable[[Contract], str]:
    return lambda sql: _enqueue(sql, _keys(sql, count), **properties)


def _new(sql: Contract) -> str:
    number = sql.value("select nextval('taskq.fence')")
    return _enqueue(sql, [f"new {number} {n}" for n in range(10)])


def _free(sql: Contract) -> str:
    """Keys that a start has set free."""
    keys = _keys(sql, 10)
    sql.run("update taskq.unique_keys set free = true where queue = 'unique' and key = any (%s)", keys)
    sql.run(
        "update taskq.ready set is_unique = false where id in (select job_id from taskq.unique_keys where free)"
    )
    return _enqueue(sql, keys)


def _ended(sql: Contract) -> str:
    """Keys that have outlived their jobs, and whose time is over."""
    keys = _keys(sql, 10)
    sql.run(
        "update taskq.unique_keys set expires_at = taskq.clock() where queue = 'unique' and key = any (%s)",
        keys,
    )
    sql.run(
        """
        delete from taskq.ready r using taskq.unique_keys u
        where r.id = u.job_id and u.queue = 'unique' and u.key = any (%s)
        """,
        keys,
    )
    return _enqueue(sql, keys)


def _running(sql: Contract, queue: str, **arguments: object) -> Row:
    sql.rows(
        "select * from taskq.enqueue_many(%s, %s)",
        queue,
        json.dumps([{"task": "t", "priority": 9, **arguments}]),
    )
    while True:
        rows = sql.claim(queues=[queue], worker_id="w")
        if rows:
            return rows[0]


def _settle(verb: str, queue: str, **arguments: object) -> Callable[[Contract], str]:
    def call(sql: Contract) -> str:
        sql.run("delete from taskq.running")
        number = sql.value("select nextval('taskq.fence')")
        if "unique_key" in arguments:
            arguments["unique_key"] = f"settle {number}"
        attempt = _running(sql, queue, **arguments)
        return f"{verb}({attempt['job_id']}, {attempt['attempt_id']})"

    return call


def _claim_after_an_end(queue: str) -> Callable[[Contract], str]:
    def call(sql: Contract) -> str:
        sql.run("delete from taskq.running")
        sql.run("insert into taskq.signals values ('key', %s)", queue)
        return f"claim(array['{queue}'], 'w')"

    return call


def _held(queue: str) -> Callable[[Contract], str]:
    return lambda sql: f"cancel_job({sql.value('select max(id) from taskq.ready where queue = %s', queue)})"


def _signalled(sql: Contract) -> str:
    sql.run("insert into taskq.signals values ('key', 'jam'), ('key', 'row')")
    return "poll_hint(array['jam', 'row', 'unique'])"


#: How each call is made, and how many buffers it may touch: about twice what it does.
CALLS: dict[str, tuple[Callable[[Contract], str], int]] = {
    "ten that exist": (_existing(10), 600),
    "ten that exist, of scope waiting": (_existing(10, unique_scope="waiting"), 600),
    "ten that are replaced": (_existing(10, unique_mode="replace"), 900),
    "ten new keys": (_new, 450),
    "ten free keys": (_free, 650),
    "ten keys of ended jobs": (_ended, 750),
    "an ordered job": (lambda sql: "enqueue('row', 't', p_concurrency_key => 'row', p_ordered => true)", 100),
    "complete with every key": (_settle("complete", "jam", concurrency_key="other", unique_key=""), 180),
    "release with every key": (
        _settle("release", "jam", concurrency_key="other", unique_key="", unique_scope="waiting"),
        150,
    ),
    "complete of a key that others wait for": (_settle("complete", "jam", concurrency_key="jam"), 120),
    "claim that brings one back": (_claim_after_an_end("jam"), 250),
    "claim that brings the next back": (_claim_after_an_end("row"), 250),
    "cancel_job that is held": (_held("jam"), 180),
    "cancel_job that waits in order": (_held("row"), 120),
    "poll_hint with signals": (_signalled, 150),
    "set_concurrency_limit": (lambda sql: "set_concurrency_limit('jam', 1)", 80),
    "set_concurrency_limit of a pattern": (lambda sql: "set_concurrency_limit('ja*', 1)", 140),
    "age": (lambda sql: "age()", 60),
    "depth of held jobs": (lambda sql: "depth('jam', 100)", 150),
    "depth of jobs that are not": (lambda sql: "depth('unique', 100)", 150),
}


@pytest.mark.parametrize("statistics", ["of a few jobs", "fresh"])
def test_no_key_costs_by_what_else_has_keys(jam: Jam, statistics: str) -> None:
    """In a new session, and in one whose plans were made when a scan was cheapest."""
    with psycopg.connect(jam.dsn, autocommit=True) as conn:
        if statistics == "fresh":
            conn.execute("analyze")
        costs = {}
        for age, sql in (("old", jam.oldest), ("new", Contract(conn))):
            for name, (call, _) in CALLS.items():
                if age == "new":
                    for _ in range(WARM_UP):
                        sql.rows(f"select * from taskq.{call(sql)}")
                # the least of three: an analyze that comes by lets the session read the catalogue and plan anew
                costs[name, age] = min(buffers(sql, call(sql)) for _ in range(3))
    assert {key: cost for key, cost in costs.items() if cost > CALLS[key[0]][1]} == {}
