"""The watcher of a stress run: a session that looks, again and again, for what may never be seen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

#: Functions that wait for nobody.
NEVER_WAIT = ("heartbeat", "take_back", "claim", "expire_ttl", "prune", "poll_hint", "purge_queue")


class Watch:
    """Samples of the whole schema. A finding names what was seen; each sample is one statement, one moment."""

    def __init__(self, conn: Connection, limits: dict[str, int]) -> None:
        self._conn = conn
        self._limits = limits
        self._stuck: set[str] = set()
        self.findings: list[str] = []
        self.figures: Counter[str] = Counter()

    def run(self, stop: threading.Event) -> None:
        """Look until *stop* is set or something is found."""
        while not stop.is_set() and not self.findings:
            self.look()
            stop.wait(0.02)

    def look(self) -> None:
        """Take one sample of everything."""
        self.figures["samples"] += 1
        self.findings += self._integrity()
        self.findings += self._over_limit()
        self.findings += self._out_of_order()
        self.findings += self._stuck_twice()
        self.findings += self._waiting()

    def _rows(self, query: str, *parameters: object) -> Iterable[tuple[Any, ...]]:
        return self._conn.execute(query.encode(), parameters).fetchall()

    def _integrity(self) -> Iterator[str]:
        for job_id, problem in self._rows("select job_id, problem from taskq.check_integrity()"):
            yield f"check_integrity(): job {job_id} {problem}"
        for job_id, fence in self._rows(_OLD_FENCES):
            yield f"job {job_id} runs under fence {fence}, which is not its greatest"

    def _over_limit(self) -> Iterator[str]:
        rows = self._rows(
            "select concurrency_key, count(*) from taskq.running where concurrency_key is not null group by 1"
        )
        for key, running in rows:
            if running > self._limits.get(key, running):
                yield f"{running} jobs of key {key} run, {self._limits[key]} may"
            if self._limits.get(key, 2) > 1:
                most = f"most of key {key} at once"
                self.figures[most] = max(self.figures[most], running)

    def _out_of_order(self) -> Iterator[str]:
        for job_id, older in self._rows(_OUT_OF_ORDER):
            yield f"ordered job {job_id} runs, and so does or waits job {older} of its key"

    def _stuck_twice(self) -> Iterator[str]:
        """Find keys with held rows and room, but nothing that would ever bring a row back, twice in a row."""
        stuck = set()
        for key, held, room, signals, claimable in self._rows(_HELD):
            self.figures["samples of a key with jobs on hold"] += 1
            self.figures["of these with room"] += room > 0
            if room > 0 and not signals and not claimable:
                stuck.add(key)
                if key in self._stuck:
                    yield f"key {key} is stuck: {held} jobs on hold, room for {room}, no signal"
        self._stuck = stuck

    def _waiting(self) -> Iterator[str]:
        for function, query, lock, behind in self._rows(_WAITING):
            self.figures[f"seen waiting for a lock: {function}"] += 1
            if function in NEVER_WAIT:
                yield f"a session waits for a lock: {query}, {lock} behind {behind}"


_OLD_FENCES = """
select r.id, r.attempt_id from taskq.running r
where exists (select from taskq.attempts a where a.job_id = r.id and a.attempt_id >= r.attempt_id)
"""

# One that was put back may find a younger one running.
_OUT_OF_ORDER = """
select x.id, o.id from taskq.running x
join (
  select r.id, r.concurrency_key from taskq.ready r where r.is_ordered
  union all
  select r.id, r.concurrency_key from taskq.running r where r.is_ordered
) o on o.concurrency_key = x.concurrency_key and o.id < x.id
where x.is_ordered
  and not exists (select from taskq.audit a where a.verb = 'redrive' and a.target = 'job ' || o.id)
"""

# A row of a paused queue is nobody's hope. One that is not due helps no more than none.
_HELD = """
select h.key, h.held, coalesce(l.max_running, 1) - h.running, h.signals, h.claimable
from (
  select r.concurrency_key as key, count(*) as held,
    (select count(*) from taskq.running x where x.concurrency_key = r.concurrency_key) as running,
    (select count(*) from taskq.signals s where s.kind = 'key' and s.key = r.concurrency_key) as signals,
    (select count(*) from taskq.ready c
     where c.concurrency_key = r.concurrency_key and c.hold is null and c.scheduled_at <= taskq.clock()
       and not exists (select from taskq.queues q where q.name = c.queue and q.paused_at is not null)) as claimable
  from taskq.ready r
  where r.hold = 'key'
    and not exists (select from taskq.queues q where q.name = r.queue and q.paused_at is not null)
  group by r.concurrency_key
) h
left join taskq.concurrency_limits l on l.key = h.key
"""

# Locks of rows, of other transactions and the advisory ones; not those of a table that is being extended, nor
# the queue of those who commit a notification.
_WAITING = """
select substring(query from '(?:taskq|")\\.(\\w+)'), query, wait_event, array(
  select b.query from pg_stat_activity b where b.pid = any (pg_blocking_pids(a.pid)))
from pg_stat_activity a
where datname = current_database() and wait_event_type = 'Lock'
  and wait_event in ('transactionid', 'tuple', 'advisory', 'relation')
"""
