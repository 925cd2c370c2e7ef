"""The checks after every scenario: what holds of the jobs, whatever was done to the machines.

Each function returns sentences about what is wrong; none = nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg

from faults.ledger import Start
from faults.server import LogLine

Connection = psycopg.Connection[Any]

_PLACES_QUERY = """
select j.id, (select count(*) from taskq.ready p where p.id = j.id)
  + (select count(*) from taskq.running p where p.id = j.id) + (select count(*) from taskq.finished p where p.id = j.id)
from taskq.jobs j order by 1
"""

_HISTORY_QUERY = """
select j.id, h.attempt_id, h.verb, coalesce(h.reason, '')
from taskq.jobs j cross join lateral taskq.job_history(j.id) h order by 1, 2
"""

# A claim that finds a key full puts rows on hold; whoever frees a slot leaves a signal, and the next claim looks.
_STUCK_KEYS_QUERY = """
select r.concurrency_key, count(*) from taskq.ready r
where r.hold = 'key'
  and not exists (select from taskq.signals s where s.kind = 'key' and s.key = r.concurrency_key)
  and not exists (select from taskq.ready c where c.concurrency_key = r.concurrency_key and c.hold is null)
  and (select count(*) from taskq.running x where x.concurrency_key = r.concurrency_key)
    < coalesce((select l.max_running from taskq.concurrency_limits l where l.key = r.concurrency_key), 1)
group by 1
"""


def places(conn: Connection, enqueued: Iterable[int]) -> Iterator[str]:
    """Check 1: each enqueued job is in exactly one place."""
    found = dict(conn.execute(_PLACES_QUERY).fetchall())
    for job_id in enqueued:
        if found.get(job_id) != 1:
            yield f"job {job_id} is in {found.get(job_id, 'no')} places"
    for job_id, problem in conn.execute("select job_id, problem from taskq.check_integrity()").fetchall():
        yield f"check_integrity(): job {job_id} {problem}"


def starts(conn: Connection, ledger: Sequence[Start], may_be_unstarted: int) -> Iterator[str]:
    """Check 2: the calls of handlers are the attempts on record.

    An attempt without a call is one that was given back with a reason, or whose worker died between claim and call:
    of these there may be *may_be_unstarted*.
    """
    history = conn.execute(_HISTORY_QUERY).fetchall()
    called = Counter((each.job_id, each.fence) for each in ledger)
    recorded = {(job_id, fence) for job_id, fence, _, _ in history}
    for (job_id, fence), times in called.items():
        if times > 1:
            yield f"attempt {fence} of job {job_id} was started {times} times"
        if (job_id, fence) not in recorded:
            yield f"attempt {fence} of job {job_id} was started and is not on record"
    unstarted = [row for row in history if (row[0], row[1]) not in called]
    died = [row for row in unstarted if row[2] == "take_back"]
    if len(died) > may_be_unstarted:
        yield f"attempts were taken back that never started: {died}"
    for job_id, fence, verb, reason in unstarted:
        if verb not in ("take_back", "cancel") and not (verb == "release" and reason):
            yield f"attempt {fence} of job {job_id} ended as {verb} and never started"


def owners(conn: Connection) -> Iterator[str]:
    """Check 3, when all workers have ended: no running row whose lease is over is left by a pass."""
    for job_id, fence in conn.execute(
        "select id, attempt_id from taskq.running where lease_expires_at < taskq.clock()"
    ).fetchall():
        yield f"nobody takes back attempt {fence} of job {job_id}"


def keys(conn: Connection) -> Iterator[str]:
    """Check 4: no key has jobs on hold and room, and nothing that would bring them back."""
    for key, held in conn.execute(_STUCK_KEYS_QUERY).fetchall():
        yield f"key {key} is stuck: {held} jobs are on hold though there is room"


def sessions(conn: Connection) -> Iterator[str]:
    """Check 6, when all workers have ended: the server has no session of theirs."""
    for name, state, query in conn.execute(
        "select application_name, state, query from pg_stat_activity where application_name like 'taskq-%'"
    ).fetchall():
        yield f"a session is left: {name} {state}: {query}"


def complaints(lines: Iterable[LogLine], asked_for: frozenset[str]) -> Iterator[str]:
    """Check 7: the server has logged no error that the scenario did not ask for."""
    for line in lines:
        if line.state not in asked_for and not line.who.startswith("faults-"):
            yield f"the server says: {line.level} {line.state} to {line.who}: {line.text}"
