"""What the database is asked about the jobs of the demo, and the proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

from taskq_sync.db.jobs import Jobs
from taskq_sync.db.session import Session
from taskq_sync.demo.library import library_folder
from taskq_sync.demo.starts import Start

_OUTCOMES = """
select status, coalesce(outcome, status), count(*) from taskq.job_view group by 1, 2 order by 1 desc, 3 desc, 2
"""

_DETOURS = """
select
  (select coalesce(sum(snooze_count), 0) from taskq.job_view),
  (select count(*) from taskq.job_view j where status = 'succeeded'
   and exists (select from taskq.attempt_view a where a.job_id = j.id and a.verb = 'fail')),
  (select count(distinct job_id) from taskq.attempt_view where verb = 'take_back')
"""

_BIGGEST = """
select result ->> 'path', (result ->> 'lines')::int, (result ->> 'functions')::int, (result ->> 'classes')::int
from taskq.job_view where status = 'succeeded' order by 2 desc, 1 limit 5
"""

_LINES = (
    "select coalesce(sum((result ->> 'lines')::bigint), 0) from taskq.job_view where status = 'succeeded'"
)

_TAKEN_BACK = "select job_id, attempt_id from taskq.attempt_view where verb = 'take_back'"

_RUNNING = (
    "select id, current_attempt_id from taskq.job_view where status = 'running' and worker_id = %(worker_id)s"
)


@frozen
class Counts:
    """How many jobs there are: by status, and by status and outcome."""

    by_outcome: Mapping[tuple[str, str], int]

    def of(self, *statuses: str) -> int:
        """Return the number of jobs with one of these statuses."""
        return sum(count for (status, _), count in self.by_outcome.items() if status in statuses)

    @property
    def all(self) -> int:
        """The number of jobs that the database has."""
        return sum(self.by_outcome.values())

    @property
    def ended(self) -> int:
        """The number of those that have ended."""
        return self.of("succeeded", "failed", "cancelled")


@frozen
class BigModule:
    """One of the biggest modules."""

    path: str
    lines: int
    functions: int
    classes: int


@frozen(kw_only=True)
class Report:
    """The end of a run. All numbers but *enqueued* and *seconds* were counted in the database."""

    enqueued: int
    """Jobs that the client was told are in."""
    counts: Counts
    snoozes: int
    retried: int
    """Jobs that failed, were run again and succeeded."""
    taken_back: int
    """Jobs whose lease ran out, as their worker was dead."""
    started_twice: int
    """Those of them whose handler had been called, and was then called once more."""
    killed: int
    """Worker processes that were killed."""
    lines: int
    biggest: Sequence[BigModule] = field(repr=False)
    problems: Sequence[str]
    """What `check_integrity()` says."""
    seconds: float

    @property
    def lost(self) -> int:
        """Jobs that were enqueued and have not ended in one of the three ways."""
        return self.enqueued - self.counts.ended

    @property
    def proven(self) -> bool:
        """Whether enqueued = succeeded + failed + cancelled, there is no other job, and the tables agree."""
        return self.lost == 0 and self.counts.all == self.enqueued and not self.problems


def count(session: Session) -> Counts:
    """Count the jobs."""
    return Counts({(status, outcome): number for status, outcome, number in session.execute(_OUTCOMES, {})})


def running_starts(session: Session, worker_id: str, starts: Iterable[Start]) -> set[Start]:
    """Return which of the attempts that a worker holds have been started by it."""
    return _pairs(session, _RUNNING, {"worker_id": worker_id}) & set(starts)


def make_report(
    session: Session, jobs: Jobs, *, enqueued: int, starts: Sequence[Start], killed: int, seconds: float
) -> Report:
    """Ask the database for everything else."""
    [(snoozes, retried, taken_back)] = session.execute(_DETOURS, {})
    [(lines,)] = session.execute(_LINES, {})
    return Report(
        enqueued=enqueued,
        counts=count(session),
        snoozes=int(snoozes),
        retried=retried,
        taken_back=taken_back,
        started_twice=started_twice(_pairs(session, _TAKEN_BACK, {}), starts),
        killed=killed,
        lines=int(lines),
        biggest=[BigModule(_short(path), *sizes) for path, *sizes in session.execute(_BIGGEST, {})],
        problems=[f"job {each.job_id}: {each.problem}" for each in jobs.check_integrity(session)],
        seconds=seconds,
    )


def _short(path: str) -> str:
    return Path(path).relative_to(library_folder()).as_posix()


def _pairs(session: Session, sql: str, params: Mapping[str, object]) -> set[Start]:
    return {Start(*row) for row in session.execute(sql, params)}


def started_twice(taken_back: set[Start], starts: Sequence[Start]) -> int:
    """Count the jobs that were started, taken back, and started again under a later fence."""
    first: dict[int, int] = {}
    for each in taken_back & set(starts):
        first[each.job_id] = min(each.fence, first.get(each.job_id, each.fence))
    return len({each.job_id for each in starts if each.fence > first.get(each.job_id, each.fence)})
