"""Random calls of the whole contract, by several sessions in turn; after each the database equals the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any, TypeVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from model import arguments as given
from model.database import Database, Tables, differences, differing, tables_of
from model.specification import Difference, Job, Refused, Row, Specification
from model.watch import Watch

#: What an answer says that the specification does not.
UNSPECIFIED = {
    *((function, "reason") for function in ("settle", "snooze", "fail", "release")),  # of a rejection
    ("poll_hint", "next_due_at"),  # of a queue that is not empty
    *(("schema_version", name) for name in ("version", "min_client")),
    *((name, name) for name in ("sleep_until", "awake")),  # they answer nothing
}
#: They change nothing.
LOOKS = ["poll_hint", "attempt_state", "get_job", "job_history", "list_jobs", "queue_stats"]
LOOKS += ["check_integrity", "schema_version"]
#: Functions that some rule calls.
CALLED: set[str] = set()

_Rule = TypeVar("_Rule", bound=Callable[..., None])


def calls(*functions: str) -> Callable[[_Rule], _Rule]:
    """Note what the rule calls."""
    CALLED.update(functions)
    return lambda rule: rule


class Model(RuleBasedStateMachine):
    """Three sessions that speak one after the other, and the specification beside them."""

    def __init__(self, database: Database, watch: Watch) -> None:
        super().__init__()
        self.database = database
        self.watch = watch
        self.spec = Specification(now=given.START, user=database.observer.info.user)
        self.handed_out: list[tuple[int, int]] = []
        self.counted = Counter[str]()
        watch.look()
        database.begin(given.START)

    # -- a step ------------------------------------------------------------------------------------------------------

    def call(self, session: int, function: str, **arguments: Any) -> list[Row]:
        """Call the database, then the specification; return the rows that both agree on, none if both refuse."""
        with self._step(function):
            answer = self.database.call(session, function, arguments)
            found = self.database.read()
            self.spec.seen, self.spec.seen_audit = {row["id"]: row for row in found["jobs"]}, found["audit"]
            self.spec.session = session
            try:
                expected = getattr(self.spec, function)(**arguments)
            except Refused as refusal:
                expected = refusal
            rows = self._agreed(function, expected, answer)
            self._compare(found)
            self._obey(function, rows, found)
        return rows

    @contextmanager
    def _step(self, function: str) -> Iterator[None]:
        """Tell the watch what happens here, whatever it is."""
        assert function in CALLED
        self.watch.step(function)
        try:
            yield
        except Exception as error:
            self.watch.found(error, self.database.script)
            raise

    def _agreed(self, function: str, expected: list[Row] | Refused, answer: list[Row] | Refused) -> list[Row]:
        if isinstance(expected, Refused) or isinstance(answer, Refused):
            if repr(expected) != repr(answer):
                _differ(f"{function}: {expected!r} is expected, and the answer is {answer!r}")
            return []
        if len(expected) != len(answer):
            _differ(f"{function}: {len(expected)} rows are expected: {expected}, and the answer is {answer}")
        if function == "purge_queue":  # in no order
            expected, answer = (sorted(rows, key=lambda row: row["job_id"]) for rows in (expected, answer))
        for should, row in zip(expected, answer, strict=True):
            free = {
                name: value
                for name, value in row.items()
                if name not in should and (function, name) in UNSPECIFIED
            }
            for each in differing(should | free, row):
                _differ(f"{function}: {each}")
        return answer

    def _compare(self, found: Tables) -> None:
        problems = list(differences(tables_of(self.spec), found))
        if problems:
            _differ("\n".join(problems))

    def _obey(self, function: str, rows: list[Row], found: Tables) -> None:
        """What holds by the answers alone, whatever the specification says."""
        for row in rows:
            self.counted["enqueued"] += row.get("status") == "created"
            self.counted["pruned"] += row.get("prune", row.get("pruned", 0))
        if len(found["jobs"]) != self.counted["enqueued"] - self.counted["pruned"]:
            _differ(f"{len(found['jobs'])} jobs are there: {dict(self.counted)}")
        running = Counter(row["job_id"] for row in found["attempts"] if row["ended_at"] is None)
        if set(running.values()) - {1}:
            _differ(f"several attempts of a job run: {running}")
        if function == "claim":
            self._obey_limits(rows, found)

    def _obey_limits(self, claimed: list[Row], found: Tables) -> None:
        count = Counter(row["concurrency_key"] for row in found["jobs"] if row["status"] == "running")
        for row in claimed:
            self.handed_out.append((row["job_id"], row["attempt_id"]))
            key = row["concurrency_key"]
            if key is not None and count[key] > self.spec._limit(key):
                _differ(f"{count[key]} jobs of key {key} run, and the limit is {self.spec._limit(key)}")

    # -- producers ---------------------------------------------------------------------------------------------------

    @initialize(
        session=given.sessions, limit=given.limits, jobs=given.crowd, others=st.lists(given.job, max_size=5)
    )
    def begin(self, session: int, limit: int | None, jobs: list[Row], others: list[Row]) -> None:
        self.call(session, "set_concurrency_limit", key="k", max_running=limit)
        self.call(session, "enqueue_many", queue="a", jobs=jobs)
        self.call(session, "enqueue_many", queue="b", jobs=self._asked(others))

    @calls("enqueue")
    @rule(session=given.sessions, queue=given.queue, job=given.job, skip_wake=st.booleans())
    def enqueue(self, session: int, queue: str, job: Row, skip_wake: bool) -> None:
        [job] = self._asked([job])
        self.call(session, "enqueue", queue=queue, **job, skip_wake=skip_wake)

    @rule(session=given.sessions, jobs=given.jobs)
    def enqueue_more(self, session: int, jobs: list[Row]) -> None:
        self.call(session, "enqueue_many", queue="a", jobs=self._asked(jobs))

    @calls("enqueue_many")
    @rule(session=given.sessions, queue=given.queue, jobs=given.jobs)
    def enqueue_many(self, session: int, queue: str, jobs: list[Row]) -> None:
        self.call(session, "enqueue_many", queue=queue, jobs=self._asked(jobs))

    def _asked(self, jobs: list[Row]) -> list[Row]:
        return [self._at(**job) for job in jobs]

    def _at(self, at: timedelta | None = None, **job: Any) -> Row:
        if at is not None:
            job.pop("delay", None)
            job["scheduled_at"] = self.spec.now + at
        return job

    # -- workers -----------------------------------------------------------------------------------------------------

    @calls("claim")
    @rule(
        session=given.sessions, queues=given.queues, worker=given.worker, limit=given.few,
        lease=given.some(lease=st.just(timedelta(seconds=20))),
    )  # fmt: skip
    def claim(self, session: int, queues: list[str], worker: str, limit: int, lease: Row) -> None:
        self.call(session, "claim", queues=queues, worker_id=worker, limit=limit, **lease)

    @rule(session=given.sessions, worker=given.worker, limit=given.few)
    def claim_more(self, session: int, worker: str, limit: int) -> None:
        self.call(session, "claim", queues=given.QUEUES, worker_id=worker, limit=limit)

    @calls("heartbeat")
    @rule(
        session=given.sessions, worker=given.worker, which=st.lists(given.which, max_size=3), beat=given.beats
    )
    def heartbeat(self, session: int, worker: str, which: list[int], beat: Row) -> None:
        attempts = self._attempts(which)
        if "progress" in beat:
            beat = beat | {"progress": {str(job_id): beat["progress"] for job_id, _ in attempts[:1]}}
        job_ids, fences = [each[0] for each in attempts], [each[1] for each in attempts]
        self.call(session, "heartbeat", worker_id=worker, job_ids=job_ids, attempt_ids=fences, **beat)

    @calls("settle")
    @precondition(lambda self: self.handed_out)
    @rule(
        session=given.sessions, worker=given.worker,
        settlements=st.lists(st.tuples(given.which, given.ends), min_size=1, max_size=4),
    )  # fmt: skip
    def settle(self, session: int, worker: str, settlements: list[tuple[int, tuple[str, Row]]]) -> None:
        attempts = self._attempts([which for which, _ in settlements])
        elements = [
            {"job_id": job_id, "attempt_id": fence, "verb": verb, **said}
            for (job_id, fence), (_, (verb, said)) in zip(attempts, settlements, strict=True)
        ]
        self.call(session, "settle", worker_id=worker, settlements=elements)

    @calls("complete_many")
    @precondition(lambda self: self.handed_out)
    @rule(session=given.sessions, worker=given.worker, which=st.lists(given.which, max_size=4))
    def complete_many(self, session: int, worker: str, which: list[int]) -> None:
        attempts = self._attempts(which)
        job_ids, fences = [each[0] for each in attempts], [each[1] for each in attempts]
        self.call(session, "complete_many", worker_id=worker, job_ids=job_ids, attempt_ids=fences)

    @precondition(lambda self: self._running())
    @rule(session=given.sessions, worker=given.worker, ends=st.lists(given.ends, min_size=1, max_size=3))
    def settle_all(self, session: int, worker: str, ends: list[tuple[str, Row]]) -> None:
        elements = [
            {"job_id": job_id, "attempt_id": fence, "verb": verb, **said}
            for (job_id, fence), (verb, said) in zip(self._running(), cycle(ends), strict=False)
        ]
        self.call(session, "settle", worker_id=worker, settlements=elements)

    @precondition(lambda self: self._running())
    @rule(session=given.sessions, which=given.which, end=given.ends, why=given.why)
    def cancel_and_settle(self, session: int, which: int, end: tuple[str, Row], why: Row) -> None:
        """A cancel request to one that runs, and what its worker says then."""
        [(job_id, fence)], (verb, said) = self._attempts([abs(which)]), end
        self.call(session, "cancel_job", job_id=job_id, **why)
        element = {"job_id": job_id, "attempt_id": fence, "verb": verb, **said}
        self.call(session, "settle", worker_id="w1", settlements=[element])

    @precondition(lambda self: self._running())
    @rule(session=given.sessions)
    def lose_all(self, session: int) -> None:
        """All leases run out; the first pass may be late, and leave them to their owners."""
        self._set_clock(max(job.lease_expires_at for job in self.spec._jobs(status="running")))
        for _ in range(2):
            self.call(session, "take_back")

    @calls("complete", "fail", "snooze", "release", "cancel_attempt")
    @precondition(lambda self: self.handed_out)
    @rule(session=given.sessions, which=given.which, end=given.ends)
    def settle_one(self, session: int, which: int, end: tuple[str, Row]) -> None:
        [(job_id, fence)], (verb, said) = self._attempts([which]), end
        function = "cancel_attempt" if verb == "cancel" else verb
        self.call(session, function, job_id=job_id, attempt_id=fence, **said)

    def _running(self) -> list[tuple[int, int]]:
        return [(job.id, job.current_attempt_id) for job in self.spec._jobs(status="running")]

    def _attempts(self, which: Iterable[int]) -> list[tuple[int, int]]:
        """Of those that run; from -1 down of all that ever did, and one that never was."""
        every = [*self.handed_out, (1, 10**6)]
        running = self._running() or every
        return [running[n % len(running)] if n >= 0 else every[n % len(every)] for n in which]

    @calls("announce", "sleep_until", "awake", "workers", "stop_worker", "hold_singleton")
    @rule(
        session=given.sessions, worker=given.worker, queues=given.queues, wakes_in=given.steps, why=given.why,
        function=st.sampled_from(
            ["announce", "stopped", "sleep_until", "awake", "workers", "stop_worker", "hold_singleton"]
        ),
    )  # fmt: skip
    def be_there(
        self, session: int, worker: str, queues: list[str], wakes_in: timedelta, why: Row, function: str
    ) -> None:
        if function == "sleep_until":
            self.call(session, function, worker_id=worker, queues=queues, wakes_at=self.spec.now + wakes_in)
        elif function in ("announce", "stopped"):
            info = {"queues": queues, "state": {"announce": "running"}.get(function, function)}
            info |= {"host": "h", "pid": 7, "version": "1", "slots": 8}
            self.call(session, "announce", worker_id=worker, info=info)
        elif function == "hold_singleton":
            self.call(session, function, name=worker)
        else:
            self.call(session, function, worker_id=worker, **(why if function == "stop_worker" else {}))

    # -- operators ---------------------------------------------------------------------------------------------------

    @calls("cancel_job")
    @rule(session=given.sessions, which=given.which, why=given.why)
    def cancel_job(self, session: int, which: int, why: Row) -> None:
        self.call(session, "cancel_job", job_id=self._job_id(which), **why)

    def _job_id(self, which: int) -> int:
        """One that runs or waits; below 0 any, or one that never was."""
        live = [job.id for job in self.spec._jobs(status="running") + self.spec._jobs(status="queued")]
        every = [*self.spec.jobs, 10**6]
        return live[which % len(live)] if live and which >= 0 else every[which % len(every)]

    @calls("redrive")
    @rule(session=given.sessions, which=given.which, why=given.why)
    def redrive(self, session: int, which: int, why: Row) -> None:
        ended = [job.id for job in self.spec.jobs.values() if job.status in ("failed", "cancelled")]
        job_id = ended[which % len(ended)] if ended and which >= -2 else self._job_id(which)
        self.call(session, "redrive", job_id=job_id, **why)

    @calls("purge_queue")
    @rule(session=given.sessions, queue=given.queue, limit=given.few, why=given.why)
    def purge_queue(self, session: int, queue: str, limit: int, why: Row) -> None:
        self.call(session, "purge_queue", queue=queue, limit=limit, **why)

    @calls("pause_queue", "resume_queue")
    @rule(
        session=given.sessions, queue=given.queue, why=given.why,
        function=st.sampled_from(["resume_queue", "pause_queue", "resume_queue"]),
    )  # fmt: skip
    def pause_or_resume(self, session: int, queue: str, why: Row, function: str) -> None:
        self.call(session, function, queue=queue, **why)

    @calls("set_queue", "set_strict_queues")
    @rule(
        session=given.sessions, queue=given.queue, policies=given.policies, resets=given.resets, why=given.why,
        strict=st.sampled_from([None] * 12 + [False, False, True]),
    )  # fmt: skip
    def set_queue(
        self, session: int, queue: str, policies: Row, resets: Row, why: Row, strict: bool | None
    ) -> None:
        if strict is not None:
            self.call(session, "set_strict_queues", strict=strict, **why)
        else:
            self.call(session, "set_queue", queue=queue, **policies, **resets, **why)

    @calls("set_concurrency_limit")
    @rule(session=given.sessions, key=st.sampled_from(given.LIMITED), limit=given.limits, why=given.why)
    def set_concurrency_limit(self, session: int, key: str, limit: int | None, why: Row) -> None:
        self.call(session, "set_concurrency_limit", key=key, max_running=limit, **why)

    # -- housekeeping and observers ----------------------------------------------------------------------------------

    @calls("take_back", "expire_ttl", "prune", "age", "housekeep")
    @rule(
        session=given.sessions,
        function=st.sampled_from(["take_back", "take_back", "housekeep", "expire_ttl", "prune", "age"]),
        limit=given.some(limit=given.few),
    )
    def keep_house(self, session: int, function: str, limit: Row) -> None:
        self.call(session, function, **limit)

    @calls(*LOOKS)
    @rule(
        session=given.sessions, which=given.which, limit=given.few, before=st.booleans(), queues=given.queues,
        function=st.sampled_from(LOOKS),
        wanted=given.some(
            queue=given.queue, task=st.sampled_from(["t", "s"]),
            status=st.sampled_from(["queued", "running", "succeeded", "failed", "cancelled"]),
        ),
    )  # fmt: skip
    def look(
        self,
        session: int,
        which: int,
        limit: int,
        before: bool,
        queues: list[str],
        function: str,
        wanted: Row,
    ) -> None:
        [(job_id, fence)] = self._attempts([which])
        said: Row = {
            "get_job": {"job_id": self._job_id(which)},
            "job_history": {"job_id": self._job_id(which)},
            "list_jobs": {"limit": limit, **wanted} | ({"before_id": self._job_id(which)} if before else {}),
            "queue_stats": {name: value for name, value in wanted.items() if name == "queue"},
            "attempt_state": {"job_id": job_id, "attempt_id": fence},
            "poll_hint": {"queues": queues},
        }
        self.call(session, function, **said.get(function, {}))

    @rule(session=given.sessions, bad=st.sampled_from(given.BAD))
    def say_nonsense(self, session: int, bad: tuple[str, Row]) -> None:
        """A call that is refused changes nothing."""
        function, arguments = bad
        with self._step(function):
            answer = self.database.call(session, function, arguments)
            if repr(answer) != repr(Refused("TQ422")):
                _differ(f"{function}: TQ422 is expected, and the answer is {answer!r}")
            self._compare(self.database.read())

    # -- time --------------------------------------------------------------------------------------------------------

    @rule(step=given.steps)
    def time_passes(self, step: timedelta) -> None:
        self._set_clock(self.spec.now + step)

    @rule(which=st.integers(0, 3), nearby=given.nearby)
    def time_comes(self, which: int, nearby: timedelta) -> None:
        """Something is due, or over, or about to be."""
        instants = [key.expires_at for key in self.spec.keys.values()]
        for job in self.spec.jobs.values():
            instants += [job.lease_expires_at, job.expires_at, job.purge_at, job.scheduled_at]
        later = sorted({each for each in instants if each is not None and each > self.spec.now})
        if later:
            self._set_clock(later[which % len(later)] + nearby)

    def _set_clock(self, now: datetime) -> None:
        self.watch.look()
        self.spec.now = now
        self.database.set_clock(now)

    # -- at the end ----------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Nobody is forgotten, and every job stands in one place, unless something else was found."""
        if self.database.script is self.watch.failed:
            return
        self._drain()
        with self._step("check_integrity"):
            findings = self.database.findings()
            if findings:
                _differ(f"check_integrity: {findings}")

    def _drain(self) -> None:
        """A worker that claims again while it finds something, or is told to, leaves nobody who could run."""
        for _ in range(50):
            found = self.call(0, "claim", queues=given.QUEUES, worker_id="w1", limit=3)
            hints = self.call(0, "poll_hint", queues=given.QUEUES)
            if not found and all(hint["state"] != "ready" for hint in hints):
                break
        with self._step("claim"):
            waiting = [job for job in self.spec.jobs.values() if self._could_run(job)]
            if waiting:
                _differ(f"these could run, and a worker that drains its queues leaves them: {waiting}")

    def _could_run(self, job: Job) -> bool:
        """An ordered job waits for the older ones, and after a redrive for a younger one that has its turn already.

        One that was put aside too late stays aside, also where the clock has gone back since.
        """
        spec = self.spec
        due = job.status == "queued" and job.scheduled_at <= spec.now and not spec._too_late(job)
        due = due and job.hold != "expired"
        others = [
            each for each in spec._jobs(ordered=True, concurrency_key=job.concurrency_key) if each.lives
        ]
        before = [each for each in others if each.id < job.id or (each.id > job.id and each.hold != "order")]
        free = not (job.ordered and before) and spec._room(job.concurrency_key) > 0
        return due and free and not spec._paused(job.queue)


def _differ(problem: str) -> None:
    raise Difference(problem)
