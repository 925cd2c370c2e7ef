"""Settle throughput: one client that ends running jobs, in batches of one verb."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from benchmarks import pgbench, product, raw
from benchmarks.bare import BareComplete
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.site import Site

#: Verdicts per call, and the jobs of a run: a run takes about a second. Then those of the verbs beside `complete`.
BATCHES = {1: (1_000, 500), 10: (5_000, 2_000), 100: (20_000, 5_000), 500: (20_000, 5_000)}

#: The batch of the line by pgbench.
PGBENCH_BATCH = 100

#: What of the floor `complete` must reach.
LIMIT = 0.6


@frozen(kw_only=True)
class Verdict:
    """What is asked for each attempt, what it is answered, and where the job stands then.

    Without anything asked it is done, and sent as a worker sends it: by the short form.
    """

    name: str
    asked: Mapping[str, object]
    answer: str
    place: str


VERDICTS = (
    Verdict(name="complete", asked={}, answer="ok", place="finished"),
    Verdict(
        name="complete with a result",
        asked={"verb": "complete", "result": {"sent": True}},
        answer="ok",
        place="finished",
    ),
    Verdict(
        name="fail with a retry",
        asked={"verb": "fail", "error": "ValueError: no", "retry_after": 60},
        answer="retry_scheduled",
        place="ready",
    ),
    Verdict(
        name="fail with a retry and an error of 8 KB",
        asked={"verb": "fail", "error": "ValueError: no\n" + "x" * 8_100, "retry_after": 60},
        answer="retry_scheduled",
        place="ready",
    ),
    Verdict(
        name="fail for good",
        asked={"verb": "fail", "error": "ValueError: no", "retryable": False},
        answer="dead",
        place="finished",
    ),
    Verdict(name="snooze", asked={"verb": "snooze", "delay": 60}, answer="ok", place="ready"),
    Verdict(name="release", asked={"verb": "release", "delay": 60}, answer="ok", place="ready"),
    Verdict(name="cancel", asked={"verb": "cancel", "reason": "no"}, answer="ok", place="finished"),
)


def benchmarks(site: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Every verdict in every size of a batch, and the bare move, against one update by a list of ids."""
    for verdict in VERDICTS:
        scored = verdict is VERDICTS[0]
        for batch, (jobs, fewer) in BATCHES.items():
            size = scale.size(jobs if scored else fewer, smoke=max(100, batch))
            name = f"settle, {verdict.name}, batch {batch}"
            yield Benchmark(
                measures=(Measure(name=name, unit="jobs/s", limit=LIMIT if scored else None),),
                product=_Product(site, verdict, batch, size),
                floor=_Floor(site, batch, size),
            )
    for batch, (jobs, _) in BATCHES.items():
        size = scale.size(jobs, smoke=max(100, batch))
        yield Benchmark(
            measures=(Measure(name=f"settle, bare move, batch {batch}", unit="jobs/s"),),
            product=BareComplete(site, batch, size),
            floor=_Floor(site, batch, size),
        )
    yield from _pgbench(site, scale.size(BATCHES[PGBENCH_BATCH][0]))


def _pgbench(site: Site, jobs: int) -> Iterator[Benchmark]:
    """The floor without Python: shows how much of the floor is its client."""
    program = pgbench.program()
    if program is not None:
        yield Benchmark(
            measures=(Measure(name=f"settle, pgbench, batch {PGBENCH_BATCH}", unit="jobs/s"),),
            product=_Pgbench(site, program, jobs),
            floor=None,
        )


@frozen
class _SettleAll:
    """The client of the product: *attempts* are (job_id, attempt_id)."""

    attempts: Sequence[tuple[int, int]]
    asked: Mapping[str, object]
    batch: int

    def __call__(self, conn: psycopg.Connection[Any]) -> list[tuple[int, str]]:
        answers: list[tuple[int, str]] = []
        for first in range(0, len(self.attempts), self.batch):
            document = [
                {"job_id": job_id, "attempt_id": attempt_id, **self.asked}
                for job_id, attempt_id in self.attempts[first : first + self.batch]
            ]
            query = {"worker_id": "benchmark", "settlements": json.dumps(document)}
            answers += [(row[0], row[2]) for row in conn.execute(product.statements.settle, query)]
        return answers


@frozen
class _CompleteAll:
    """The client of the product for what is done: *attempts* are (job_id, attempt_id)."""

    attempts: Sequence[tuple[int, int]]
    batch: int

    def __call__(self, conn: psycopg.Connection[Any]) -> list[tuple[int, str]]:
        answers: list[tuple[int, str]] = []
        for first in range(0, len(self.attempts), self.batch):
            batch = self.attempts[first : first + self.batch]
            query = {
                "worker_id": "benchmark",
                "job_ids": "{" + ",".join([str(job_id) for job_id, _ in batch]) + "}",
                "attempt_ids": "{" + ",".join([str(attempt_id) for _, attempt_id in batch]) + "}",
            }
            rows = conn.execute(product.statements.complete_many, query).fetchall()
            answers += [(job_id, row[0]) for (job_id, _), row in zip(batch, rows, strict=True)]
        return answers


@frozen
class _FinishAllRaw:
    """The client of the floor."""

    ids: Sequence[int]
    batch: int

    def __call__(self, conn: psycopg.Connection[Any]) -> None:
        for first in range(0, len(self.ids), self.batch):
            conn.execute(raw.DONE, (self.ids[first : first + self.batch],))


@define
class _Product:
    site: Site
    verdict: Verdict
    batch: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)
    attempts: list[tuple[int, int]] = field(init=False, factory=list)
    answers: list[tuple[int, str]] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = product.fill(self.site.conn, self.jobs)
        self.attempts = product.claim_all(self.site.conn)

    def call(self) -> Sequence[float]:
        client = (
            _SettleAll(self.attempts, self.verdict.asked, self.batch)
            if self.verdict.asked
            else _CompleteAll(self.attempts, self.batch)
        )
        shift = self.site.crew.run(1, client)
        self.answers = shift.results[0]
        return (len(self.answers) / shift.seconds,)

    def check(self) -> None:
        product.expect_once(self.ids, (job_id for job_id, _ in self.answers), "settled")
        wanted = self.verdict.answer
        unlike = [answer for answer in self.answers if answer[1] != wanted]
        if unlike:
            raise Incorrect(f"{len(unlike)} answers of settle are not {wanted}, the first: {unlike[0]}")
        product.expect_place(self.site.conn, self.verdict.place, self.ids)


@define
class _Floor:
    site: Site
    batch: int
    jobs: int
    ids: list[int] = field(init=False, factory=list)

    def set_up(self) -> None:
        self.ids = raw.fill(self.site.conn, self.jobs, state=raw.CLAIMED)

    def call(self) -> Sequence[float]:
        shift = self.site.crew.run(1, _FinishAllRaw(self.ids, self.batch))
        return (len(self.ids) / shift.seconds,)

    def check(self) -> None:
        raw.expect_state(self.site.conn, self.ids, raw.FINISHED)


@define
class _Pgbench:
    site: Site
    program: str
    jobs: int

    @property
    def calls(self) -> int:
        return max(1, self.jobs // PGBENCH_BATCH)

    def set_up(self) -> None:
        raw.fill(self.site.conn, self.calls * PGBENCH_BATCH, state=raw.CLAIMED)
        self.site.conn.execute("drop sequence if exists raw_turn")
        self.site.conn.execute("create sequence raw_turn minvalue 0 cache 1")

    def call(self) -> Sequence[float]:
        script = raw.DONE_IN_TURN.format(rows=PGBENCH_BATCH)
        seconds = pgbench.run(self.program, self.site.dsn, script, clients=1, calls=self.calls)
        return (self.calls * PGBENCH_BATCH / seconds,)

    def check(self) -> None:
        raw.expect_state(self.site.conn, range(self.calls * PGBENCH_BATCH), raw.FINISHED)
