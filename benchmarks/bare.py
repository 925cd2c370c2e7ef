"""The least that the tables ask: the rows of a claim and of a complete moved by one plain statement.

No checks, keys, policies, fences compared or answers, one client. What this reaches of the floor is a bound for the
functions that do all of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import product
from benchmarks.site import Site

_CLAIM = """
with look as materialized (
  select r.ctid as tid, r.* from taskq.ready r
  where r.queue = %(queue)s and r.hold is null and r.priority = 0 and r.scheduled_at <= statement_timestamp()
  order by r.scheduled_at, r.id
  limit %(limit)s
  for update skip locked
),
gone as (
  delete from taskq.ready r where r.ctid = any (array(select l.tid from look l))
),
moved as (
  insert into taskq.running (
    id, attempt_id, queue, task, priority, scheduled_at, expires_at, concurrency_key, worker_id, claimed_at, lease,
    lease_expires_at, attempt_count, failure_count, expiry_streak, snooze_count, progress, is_unique, is_ordered,
    watched)
  select l.id, nextval('taskq.fence'), l.queue, l.task, l.priority, l.scheduled_at, l.expires_at, l.concurrency_key,
    'benchmark', statement_timestamp(), interval '1 min', statement_timestamp() + interval '1 min',
    l.attempt_count + 1, l.failure_count, l.expiry_streak, l.snooze_count, l.progress, l.is_unique, l.is_ordered,
    l.watched
  from look l
)
select l.id, j.payload::text
from look l
cross join lateral (select jobs.payload from taskq.jobs where jobs.id = l.id limit 1) j
"""
_COMPLETE = """
with gone as (
  delete from taskq.running r where r.id = any (%(ids)s) returning r.*
)
insert into taskq.finished (
  id, queue, task, status, outcome, verb, attempt_id, worker_id, claimed_at, finished_at, purge_at, priority,
  scheduled_at, expires_at, concurrency_key, attempt_count, failure_count, expiry_streak, snooze_count, progress,
  is_unique, is_ordered, watched)
select g.id, g.queue, g.task, 'succeeded', 'success', 'complete', g.attempt_id, g.worker_id, g.claimed_at,
  statement_timestamp(), statement_timestamp() + interval '2 days', g.priority, g.scheduled_at, g.expires_at,
  g.concurrency_key, g.attempt_count, g.failure_count, 0, g.snooze_count, g.progress, g.is_unique, g.is_ordered,
  g.watched
from gone g
"""
#: As the functions do: a plan made while the tables were small must not stay.
_PLANS = "set enable_seqscan = off; set enable_sort = off; set jit = off"


@frozen
class _ClaimAll:
    """A client: until nothing is left."""

    rows: int

    def __call__(self, conn: psycopg.Connection[Any]) -> list[int]:
        conn.execute(_PLANS)
        ids: list[int] = []
        query = {"queue": product.QUEUE, "limit": self.rows}
        while found := conn.execute(_CLAIM, query).fetchall():
            ids += [row[0] for row in found]
        conn.execute("reset all")
        return ids


@frozen
class _CompleteAll:
    """A client: all of *ids*."""

    ids: Sequence[int]
    batch: int

    def __call__(self, conn: psycopg.Connection[Any]) -> int:
        conn.execute(_PLANS)
        done = 0
        for first in range(0, len(self.ids), self.batch):
            done += conn.execute(_COMPLETE, {"ids": self.ids[first : first + self.batch]}).rowcount
        conn.execute("reset all")
        return done


@define
class BareClaim:
    """A side that claims *jobs*, *rows* by each statement."""

    site: Site
    rows: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)
    claimed: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = product.fill(self.site.conn, self.jobs)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, _ClaimAll(self.rows))
        self.claimed = shift.results[0]
        return (len(self.claimed) / shift.seconds,)

    def check(self) -> None:
        product.expect_once(self.ids, self.claimed, "claimed")
        product.expect_place(self.site.conn, "running", self.ids)


@define
class BareComplete:
    """A side that ends *jobs*, *batch* by each statement."""

    site: Site
    batch: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = product.fill(self.site.conn, self.jobs)
        product.claim_all(self.site.conn)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, _CompleteAll(self.ids, self.batch))
        return (shift.results[0] / shift.seconds,)

    def check(self) -> None:
        product.expect_place(self.site.conn, "finished", self.ids)
