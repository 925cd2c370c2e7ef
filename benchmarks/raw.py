"""The floor of claim, settle and drain: the smallest table that could do it.

One narrow table with a state, an index on what is to be done, and two statements. Nothing of what a queue needs
else: no lease, no fence, no priority, no time, no history of attempts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from benchmarks.benchmark import Incorrect
from benchmarks.product import payload

_TABLE = """
create table if not exists raw_jobs (
  id bigint primary key, state smallint not null default 0, payload text not null)
"""
_INDEX = "create index if not exists raw_jobs_todo on raw_jobs (id) where state = 0"

CLAIM = """
update raw_jobs set state = 1
where id = any (array(
  select id from raw_jobs where state = 0 order by id limit %s for update skip locked))
returning id, payload
"""
IS_LEFT = "select exists (select from raw_jobs where state = 0)"
DONE = "update raw_jobs set state = 2 where id = any (%s)"

#: The same for a client that has no list: so many rows each call, by a sequence that begins at 0.
DONE_IN_TURN = """
update raw_jobs set state = 2
where id = any (array(select generate_series(turn.n * {rows}, turn.n * {rows} + {rows} - 1)
                      from (select nextval('raw_turn') as n) turn))
"""

TODO, CLAIMED, FINISHED = 0, 1, 2


def fill(conn: psycopg.Connection[Any], count: int, *, state: int = TODO) -> list[int]:
    """Put *count* rows with the payload of the product's jobs into the empty table, and return their ids."""
    conn.execute(_TABLE)
    conn.execute(_INDEX)
    conn.execute("truncate raw_jobs")
    with conn.cursor().copy("copy raw_jobs (id, state, payload) from stdin") as copy:
        for number in range(count):
            copy.write_row((number, state, json.dumps(payload(number))))
    conn.execute("vacuum (analyze) raw_jobs")
    return list(range(count))


def expect_state(conn: psycopg.Connection[Any], ids: Sequence[int], state: int) -> None:
    """Raise `Incorrect` unless exactly the rows *ids* are in *state*."""
    row = conn.execute("select count(*) from raw_jobs where state = %s", (state,)).fetchone()
    if row is None or row[0] != len(ids):
        raise Incorrect(f"the floor left {row} of {len(ids)} rows in state {state}")
