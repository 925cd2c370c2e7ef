"""What is committed, as one statement sees it, and what must be true of it at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import frozen

from kit.contract import Contract, Row
from properties.book import Book, limit_of

_QUERY = """
select
  (select coalesce(jsonb_agg(to_jsonb(r) || jsonb_build_object('unique_key', j.unique_key,
     'due', r.scheduled_at <= taskq.clock(), 'expired', coalesce(r.expires_at <= taskq.clock(), false))), '[]')
   from taskq.ready r join taskq.jobs j using (id)) as ready,
  (select coalesce(jsonb_agg(to_jsonb(r) || jsonb_build_object('unique_key', j.unique_key)), '[]')
   from taskq.running r join taskq.jobs j using (id)) as running,
  (select coalesce(jsonb_object_agg(f.id, f.outcome), '{}') from taskq.finished f) as finished,
  (select coalesce(jsonb_agg(j.id), '[]') from taskq.jobs j) as jobs,
  (select coalesce(jsonb_agg(distinct s.key), '[]') from taskq.signals s where s.kind = 'key') as signals,
  (select coalesce(jsonb_object_agg(l.key, l.max_running), '{}') from taskq.concurrency_limits l) as limits,
  (select coalesce(jsonb_agg(q.name), '[]') from taskq.queues q where q.paused_at is not null) as paused,
  (select coalesce(jsonb_agg(to_jsonb(c)), '[]') from taskq.check_integrity() c) as findings
"""


@frozen
class Snapshot:
    """The rows of the tables as dicts; those of ready know whether they are `due` and `expired`."""

    ready: list[Row]
    running: list[Row]
    finished: dict[int, str]
    jobs: set[int]
    signals: set[str]
    limits: Row
    paused: set[str]
    findings: list[Row]

    @classmethod
    def of(cls, observer: Contract) -> Snapshot:
        """Return what *observer*, a session that is in no transaction, sees now."""
        [row] = observer.rows(_QUERY)
        row["finished"] = {int(job_id): outcome for job_id, outcome in row["finished"].items()}
        return cls(**{**row, **{name: set(row[name]) for name in ("jobs", "signals", "paused")}})

    def room(self, key: str | None) -> int:
        """Return how many more jobs of *key* may start; of no key, one."""
        if key is None:
            return 1
        return limit_of(key, self.limits) - sum(each["concurrency_key"] == key for each in self.running)

    def eligible(self) -> list[Row]:
        """Return the jobs that wait though they are due, in order, and their key has room."""
        live = [*self.ready, *self.running]
        return [
            each
            for each in self.ready
            if each["due"]
            and not each["expired"]
            and each["queue"] not in self.paused
            and self.room(each["concurrency_key"]) > 0
            and not (each["is_ordered"] and any(_keeps_back(other, each) for other in live))
        ]

    def problems(self, book: Book) -> Iterator[str]:
        """Say what should not be."""
        yield from (f"check_integrity: {each}" for each in self.findings)
        yield from self._unknown_to(book)
        yield from self._over_the_limit(book)
        yield from self._out_of_order(book)
        yield from self._twice_unique(book)
        yield from self._stuck()

    def _unknown_to(self, book: Book) -> Iterator[str]:
        if self.jobs != set(book.jobs):
            yield f"jobs lost or invented: {self.jobs ^ set(book.jobs)}"
        running = {each["attempt_id"]: each["id"] for each in self.running}
        noted = {each.attempt_id: each.job_id for each in book.running.values()}
        if running != noted:
            yield f"{running} run, and {noted} were handed out"
        expired = {job_id for job_id, outcome in self.finished.items() if outcome == "expired_ttl"}
        if set(self.finished) - expired != book.ended:
            yield f"{self.finished} have ended, and {book.ended} were said to"

    def _over_the_limit(self, book: Book) -> Iterator[str]:
        """A lowered limit ends nothing, so the one that the last start has seen is the bound."""
        last: dict[str, int] = {}
        for each in self.running:
            if each["concurrency_key"] is not None:
                last[each["concurrency_key"]] = max(last.get(each["concurrency_key"], 0), each["attempt_id"])
        counts = Counter(each["concurrency_key"] for each in self.running)
        for key, attempt_id in last.items():
            limit = book.running[attempt_id].limit if attempt_id in book.running else None
            if limit is not None and counts[key] > limit:
                yield f"{counts[key]} jobs of key {key} run, and the limit was {limit} when the last one started"

    def _out_of_order(self, book: Book) -> Iterator[str]:
        for each in self.running:
            older = [other for other in [*self.ready, *self.running] if _before(other, each)]
            others = [other for other in older if other in self.running or other["id"] not in book.redrives]
            if each["is_ordered"] and others:
                yield f"ordered job {each['id']} runs before {others}"

    def _twice_unique(self, book: Book) -> Iterator[str]:
        holders = Counter(
            (each["queue"], each["unique_key"])
            for each in [
                *self.ready,
                *(each for each in self.running if book.jobs[each["id"]].scope == "live"),
            ]
            if each["is_unique"]
        )
        yield from (f"{count} jobs hold unique key {key}" for key, count in holders.items() if count > 1)

    def _stuck(self) -> Iterator[str]:
        for each in self.ready:
            key = each["concurrency_key"]
            if each["hold"] == "key" and self.room(key) > 0 and key not in self.signals:
                # those are claimed, or expire, before the held ones, and leave a signal
                nexts = [
                    other
                    for other in self.ready
                    if (other["concurrency_key"], other["queue"]) == (key, each["queue"])
                    and other["hold"] is None
                    and (other["due"] or other["expired"])
                ]
                if not nexts:
                    yield f"job {each['id']} is held though key {key} has room, and nothing brings it back"


def _before(other: Row, job: Row) -> bool:
    return bool(
        other["is_ordered"] and other["concurrency_key"] == job["concurrency_key"] and other["id"] < job["id"]
    )


def _keeps_back(other: Row, job: Row) -> bool:
    """Whether *other* goes before the ordered *job*: it is older, or it was the next one when that was put back."""
    is_next = (
        other["is_ordered"]
        and other["concurrency_key"] == job["concurrency_key"]
        and other["id"] != job["id"]
        and other.get("hold") != "order"
    )
    return bool(is_next) or _before(other, job)
