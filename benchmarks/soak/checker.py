"""The count at the end: what must be 0 when all jobs are settled, whatever was killed meanwhile.

It compares three sources: the ids that the producer was given, the starts that handlers have written to the ledger, and
what the schema has on record. Each check is a query for the jobs that are not as they should be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from attrs import frozen

from benchmarks.soak.tasks import KINDS

Connection = psycopg.Connection[Any]

#: So many jobs of each finding are named.
EXAMPLES = 10

_EXPECTED = "create table soak.expected (task text primary key, status text not null)"
_MADE = "create table soak.made (job_id bigint not null)"

#: Committed, and not ended; or completed in a transaction of its handler, whose row is not there.
_LOST = """
select job_id from (select id as job_id from taskq.jobs union select job_id from soak.made) j
where not exists (select from taskq.finished f where f.id = j.job_id)
union
select f.id from taskq.finished f
where f.task = 'soak.transaction' and f.status = 'succeeded'
  and not exists (select from soak.once o where o.job_id = f.id)
"""

#: An attempt that ended twice; a job that ended twice; a result, or the row of a transaction, of another attempt than
#: the one that has completed the job.
_SETTLED_TWICE = """
select job_id from taskq.attempt_view where ended_at is not null group by job_id, attempt_id having count(*) > 1
union
select job_id from taskq.attempt_view
where status in ('succeeded', 'failed', 'cancelled') group by job_id having count(*) > 1
union
select f.id from taskq.finished f
where f.status = 'succeeded' and f.result is distinct from to_jsonb(f.attempt_id)
union
select job_id from soak.once group by job_id having count(*) > 1
union
select o.job_id from soak.once o
where not exists (select from taskq.finished f where f.id = o.job_id and f.attempt_id = o.fence)
"""

_FAILED_UNASKED = """
select f.id from taskq.finished f join soak.expected e using (task)
where f.status = 'failed' and e.status <> 'failed'
"""

_ENDED_OTHERWISE = """
select f.id from taskq.finished f join soak.expected e using (task)
where f.status not in (e.status, 'failed')
union
select f.id from taskq.finished f where not exists (select from soak.expected e where e.task = f.task)
"""

#: One attempt is one start, and what was started is on record.
_ATTEMPT_STARTED_TWICE = "select job_id from soak.started group by job_id, fence having count(*) > 1"
_OFF_THE_RECORD = """
select s.job_id from soak.started s
where not exists (select from taskq.attempt_view a where a.job_id = s.job_id and a.attempt_id = s.fence)
"""

#: A worker gave a verdict, but no handler has run.
_NEVER_STARTED = """
select a.job_id from taskq.attempt_view a
where a.verb in ('complete', 'fail', 'snooze', 'cancel')
  and not exists (select from soak.started s where s.job_id = a.job_id and s.fence = a.attempt_id)
"""

#: A call that said that nothing was done, and so was made again. With a unique key a call repeats itself: then a job
#: that has come in and ended meanwhile is enqueued once more, as the guarantees say.
_ENQUEUED_TWICE = """
select min(id) from taskq.jobs where unique_key is null group by payload -> 'number' having count(*) > 1
"""

#: Run at least once: an attempt was started and taken back, because its worker was killed, and another one was started.
_STARTED_TWICE = """
select distinct s.job_id from soak.started s
join taskq.attempt_view a on a.job_id = s.job_id and a.attempt_id = s.fence and a.verb = 'take_back'
where exists (select from soak.started later where later.job_id = s.job_id and later.fence > s.fence)
"""

_ATTEMPTS = """
select task, attempt_id, coalesce(verb, 'running'), a.status, coalesce(a.outcome, '-'), a.claimed_at, a.ended_at,
  left(coalesce(a.error, a.reason, ''), 200)
from taskq.attempt_view a join taskq.jobs j on j.id = a.job_id where a.job_id = %s order by attempt_id
"""
_INTEGRITY = "select job_id, problem from taskq.check_integrity()"
_UNKNOWN_MADE = "select id from taskq.jobs where (payload ->> 'number')::bigint = any(%s)"


@frozen(kw_only=True)
class Findings:
    """What was found: for each check the ids of the jobs, and what `check_integrity()` says."""

    wrong: Mapping[str, Sequence[int]]
    started_twice: int
    integrity: Sequence[str]
    #: What the schema has on record of the first jobs that are not right, a line for each.
    stories: Sequence[str]
    #: Jobs that are in though their call ended without telling so.
    unknown_made: int


#: By the name of the figure.
CHECKS: Mapping[str, str] = {
    "lost": _LOST,
    "settled_twice": _SETTLED_TWICE,
    "failed_unasked": _FAILED_UNASKED,
    "ended_otherwise": _ENDED_OTHERWISE,
    "attempt_started_twice": _ATTEMPT_STARTED_TWICE,
    "off_the_record": _OFF_THE_RECORD,
    "never_started": _NEVER_STARTED,
    "enqueued_twice": _ENQUEUED_TWICE,
}


def check(conn: Connection, *, made: Sequence[int], unknown: Sequence[int]) -> Findings:
    """Compare all; the ledger has been loaded. *made* and *unknown* are the producer's."""
    conn.execute(_EXPECTED)
    with conn.cursor() as cursor:
        cursor.executemany(
            "insert into soak.expected values (%s, %s)", [(kind.name, kind.ends) for kind in KINDS]
        )
        conn.execute(_MADE)
        with cursor.copy("copy soak.made (job_id) from stdin") as copy:
            for job_id in made:
                copy.write_row((job_id,))
    conn.execute("create index on soak.started (job_id, fence)")
    conn.execute("analyze")
    wrong = {name: _ids(conn, query) for name, query in CHECKS.items()}
    return Findings(
        wrong=wrong,
        stories=[_story(conn, job_id) for ids in wrong.values() for job_id in ids[:EXAMPLES]],
        started_twice=len(_ids(conn, _STARTED_TWICE)),
        integrity=[f"job {job_id} {problem}" for job_id, problem in conn.execute(_INTEGRITY).fetchall()],
        unknown_made=len(conn.execute(_UNKNOWN_MADE, (list(unknown),)).fetchall()),
    )


def _ids(conn: Connection, query: str) -> list[int]:
    return [job_id for (job_id,) in conn.execute(query.encode()).fetchall()]


def _story(conn: Connection, job_id: int) -> str:
    attempts = [" ".join(map(str, row)) for row in conn.execute(_ATTEMPTS, (job_id,)).fetchall()]
    return f"job {job_id}: {'; '.join(attempts) or 'no attempt on record'}"
