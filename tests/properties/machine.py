"""Random sessions, step by step: what each is told must agree with what all of them were told before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row
from kit.databases import clear
from properties.actor import Actor
from properties.book import Attempt, Book, Request, limit_of
from properties.snapshot import Snapshot

QUEUES = ["a", "b"]
LIMITED = ["k", "user:1", "user:*", "*"]
VERBS: dict[str, Row] = {
    "complete": {"verb": "complete"},
    "fail": {"verb": "fail", "retry_after": 0},
    "fail for good": {"verb": "fail", "retryable": False},
    "snooze": {"verb": "snooze", "delay": 20},
    "release": {"verb": "release", "delay": 0},
    "cancel": {"verb": "cancel"},
}
#: Rounds of claims, over all queues, after which nobody waits who could run.
ROUNDS = 3


@st.composite
def jobs(draw: st.DrawFn) -> Row:
    """Draw an object of `enqueue_many`; few names, so that they meet."""
    job: Row = {
        "task": "t",
        "priority": draw(st.sampled_from([0, 0, 5, -5])),
        "lease": draw(st.sampled_from([10, 60])),
        "backoff": draw(st.sampled_from([0, 30])),
        "max_attempts": draw(st.sampled_from([5, 1])),
    }
    if draw(st.integers(0, 3)):
        job["concurrency_key"] = draw(st.sampled_from(["k", "k", "user:1", "user:2"]))
        job["ordered"] = draw(st.sampled_from([False, False, True]))
    if draw(st.booleans()):
        modes = ["keep"] if job.get("ordered") else ["keep", "replace", "replace_keep_schedule"]
        job["unique_key"] = draw(st.sampled_from(["u", "v"]))
        job["unique_mode"] = draw(st.sampled_from(modes))
        job["unique_scope"] = draw(st.sampled_from(["live", "waiting"]))
        if not draw(st.integers(0, 3)):
            job["unique_for"] = draw(st.sampled_from([5, 100]))
    if not draw(st.integers(0, 2)):
        job["delay"] = draw(st.sampled_from([5, 100]))
    if not draw(st.integers(0, 4)):
        job["ttl"] = draw(st.sampled_from([5, 100]))
    return job


#: Many jobs of one key, some of which share a unique key.
_crowd = st.lists(
    st.fixed_dictionaries(
        {"task": st.just("t"), "concurrency_key": st.just("k"), "priority": st.sampled_from([0, 5])},
        optional={"unique_key": st.just("u"), "ordered": st.just(True)},
    ),
    min_size=3,
    max_size=6,
)
_actors = st.integers(0, 3)
_workers = st.integers(0, 2)
_stays_open = st.sampled_from([False, False, True])
_which = st.integers(0, 20)
_queue = st.sampled_from(QUEUES)
_queues = st.sampled_from([["a"], ["b"], ["a", "b"], ["b", "a"]])
_few = st.sampled_from([1, 2, 10, 10])
_key = st.sampled_from(["k", "k", "k", "user:1"])
_limited = st.sampled_from(["k", "k", "k", *LIMITED])
_limit = st.sampled_from([2, 3, 1, 0, None])
_verb = st.sampled_from([*VERBS, "complete", "beat"])
_operation = st.sampled_from(
    ["take_back", "take_back", "expire_ttl", "age", "pause_queue", "resume_queue", "resume_queue"]
)


class Sessions(RuleBasedStateMachine):
    """Four sessions, three of them workers, whose transactions may stay open over many steps."""

    def __init__(self, actors: list[Actor], observer: Contract, clock: Clock) -> None:
        super().__init__()
        clear(observer.conn)
        clock.forward(seconds=(datetime(2030, 1, 1, tzinfo=timezone.utc) - clock.now).total_seconds())
        observer.set_queue(queue="b", aging="30 s")
        self.actors = actors
        self.observer = observer
        self.clock = clock
        self.book = Book()
        self.attempts: list[Attempt] = []  # every one that was ever handed out
        self.abandoned: set[int] = set()  # their worker is dead
        self.sound = True

    # -- the steps -------------------------------------------------------------------------------------------

    @initialize(
        limit=st.sampled_from([None, 2, 3]),
        first=_crowd | st.lists(jobs(), min_size=2, max_size=10),
        second=st.lists(jobs(), max_size=5),
    )
    def begin(self, limit: int | None, first: list[Row], second: list[Row]) -> None:
        with self.step(3) as session:
            session.attempt("set_concurrency_limit", waits=False, key="k", max_running=limit)
            for queue, jobs in zip(QUEUES, (first, second), strict=True):
                self._enqueue(session, queue, jobs)

    @rule(actor=_actors, queue=_queue, jobs=st.lists(jobs(), min_size=1, max_size=4), stays_open=_stays_open)
    def enqueue(self, actor: int, queue: str, jobs: list[Row], stays_open: bool) -> None:
        with self.step(actor, stays_open) as session:
            self._enqueue(session, queue, jobs)

    @rule(
        actor=_actors,
        mode=st.sampled_from(["replace", "replace", "replace_keep_schedule", "keep"]),
        delay=st.sampled_from([0, 5, 100, 100]),
        key=_key,
        stays_open=_stays_open,
    )
    def debounce(self, actor: int, mode: str, delay: int, key: str, stays_open: bool) -> None:
        job = {"task": "t", "unique_key": "u", "unique_mode": mode, "delay": delay, "concurrency_key": key}
        with self.step(actor, stays_open) as session:
            self._enqueue(session, "a", [job])

    @rule(worker=_workers, queues=_queues, limit=_few, stays_open=st.booleans())
    def claim(self, worker: int, queues: list[str], limit: int, stays_open: bool) -> None:
        with self.step(worker, stays_open) as session:
            self._claim(session, queues, limit)

    @rule(worker=_workers, limit=_few)
    def claim_and_commit(self, worker: int, limit: int) -> None:
        with self.step(worker) as session:
            self._claim(session, QUEUES, limit)

    @precondition(lambda self: self.attempts)
    @rule(
        actor=_actors, which=_which, others=st.lists(_which, max_size=2), verb=_verb, stays_open=_stays_open
    )
    def settle(self, actor: int, which: int, others: list[int], verb: str, stays_open: bool) -> None:
        """One that runs, if any does, and others that may have ended."""
        with self.step(actor, stays_open) as session:
            running = list(self.book.running.values()) or self.attempts
            chosen = [self.attempts[-1 - each % len(self.attempts)] for each in others]
            self._settle(session, [running[which % len(running)], *chosen], verb)

    @precondition(lambda self: self.book.jobs)
    @rule(actor=_actors, which=_which, stays_open=_stays_open)
    def cancel(self, actor: int, which: int, stays_open: bool) -> None:
        with self.step(actor, stays_open) as session:
            job_id = sorted(self.book.jobs)[-1 - which % len(self.book.jobs)]
            for answer in session.attempt("cancel_job", waits=True, job_id=job_id) or []:
                if answer["result"] == "cancelled":
                    self._note_finish(session, job_id)

    @rule(actor=_actors, which=_which, stays_open=_stays_open)
    def redrive(self, actor: int, which: int, stays_open: bool) -> None:
        with self.step(actor, stays_open) as session:
            ended = session.rows("select id from taskq.finished where status <> 'succeeded' order by id desc")
            if ended:
                job_id = ended[which % len(ended)]["id"]
                for answer in session.attempt("redrive", waits=True, job_id=job_id) or []:
                    assert answer["result"] in ("redriven", "key_taken"), answer
                    if answer["result"] == "redriven":
                        session.note(lambda book: book.redriven(job_id))

    @rule(actor=_actors, queue=_queue, limit=_few, stays_open=_stays_open)
    def purge(self, actor: int, queue: str, limit: int, stays_open: bool) -> None:
        with self.step(actor, stays_open) as session:
            for answer in session.attempt("purge_queue", waits=False, queue=queue, limit=limit) or []:
                self._note_finish(session, answer["job_id"])

    @rule(actor=_actors, key=_limited, limit=_limit, stays_open=_stays_open)
    def set_limit(self, actor: int, key: str, limit: int | None, stays_open: bool) -> None:
        with self.step(actor, stays_open) as session:
            session.attempt("set_concurrency_limit", waits=True, key=key, max_running=limit)

    @rule(actor=_actors, function=_operation, stays_open=_stays_open)
    def operate(self, actor: int, function: str, stays_open: bool) -> None:
        with self.step(actor, stays_open) as session:
            if function.endswith("queue"):
                session.attempt(function, waits=True, queue="a")
            elif function == "take_back":
                self._take_back(session)
            else:
                session.attempt(function, waits=False)

    @rule(worker=st.sampled_from([0, 1, 2, None, None]), seconds=st.sampled_from([1, 11, 11, 61, 400]))
    def pass_time(self, worker: int | None, seconds: int) -> None:
        """A worker may die: it keeps what it has until the leases have run out; what was not committed never was."""
        with self.step(3, True):
            if worker is not None:
                session = self.actors[worker]
                session.end(self.book, commits=False)
                self.abandoned.update(
                    each["attempt_id"]
                    for each in self.observer.rows(
                        "select attempt_id from taskq.running where worker_id = %s", session.name
                    )
                )
            self.clock.forward(seconds=seconds)

    @precondition(lambda self: any(each.is_open for each in self.actors))
    @rule(which=_which, commits=st.sampled_from([True, True, False]))
    def end_transaction(self, which: int, commits: bool) -> None:
        opened = [n for n, each in enumerate(self.actors) if each.is_open]
        with self.step(opened[which % len(opened)], True) as session:
            session.end(self.book, commits=commits)

    # -- what every step does ------------------------------------------------------------------------------------

    @contextmanager
    def step(self, actor: int, stays_open: bool = False) -> Iterator[Actor]:
        """Lend the session; commit what it did unless it stays open; look at all that is committed."""
        self.sound = False
        session = self.actors[actor]
        was_open = session.is_open
        yield session
        if not (stays_open or was_open):
            session.end(self.book, commits=True)
        self._look()
        self.sound = True

    def _look(self) -> Snapshot:
        seen = Snapshot.of(self.observer)
        problems = list(seen.problems(self.book))
        assert not problems, "\n".join(problems)
        return seen

    def _claim(self, session: Actor, queues: list[str], limit: int) -> int:
        claimed = (
            session.attempt("claim", waits=False, queues=queues, worker_id=session.name, limit=limit) or []
        )
        limits = session.value(
            "select coalesce(jsonb_object_agg(key, max_running), '{}') from taskq.concurrency_limits"
        )
        for row in claimed:
            key = row["concurrency_key"]
            limit_seen = None if key is None else limit_of(key, limits)
            self._note_start(session, Attempt(row["job_id"], row["attempt_id"], limit_seen))
        return len(claimed)

    def _note_start(self, session: Actor, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        session.note(lambda book: book.started(attempt))

    def _settle(self, session: Actor, attempts: list[Attempt], verb: str) -> None:
        attempts = [each for each in attempts if each.attempt_id not in self.abandoned]
        live = {each.attempt_id for each in attempts if self._is_live(session, each)}
        if verb == "beat":
            self._beat(session, attempts, live)
            return
        document = [
            {"job_id": each.job_id, "attempt_id": each.attempt_id, **VERBS[verb]} for each in attempts
        ]
        answers = session.attempt("settle", waits=True, worker_id=session.name, settlements=Jsonb(document))
        for answer in answers or []:
            if answer["result"] in ("ok", "retry_scheduled", "dead"):
                assert answer["attempt_id"] in live, f"{answer} for an attempt that had ended"
                live.remove(answer["attempt_id"])  # of two elements for one attempt the first counts
                self._note_end(session, answer)
        assert answers is None or not live, f"{live} ran and were not settled: {answers}"

    def _beat(self, session: Actor, attempts: list[Attempt], live: set[int]) -> None:
        answers = session.attempt(
            "heartbeat",
            waits=False,
            worker_id=session.name,
            job_ids=[each.job_id for each in attempts],
            attempt_ids=[each.attempt_id for each in attempts],
        )
        for answer in answers or []:
            assert (answer["state"] == "lost") == (answer["attempt_id"] not in live), answer

    def _note_end(self, session: Actor, end: Row) -> None:
        session.note(lambda book: book.settled(end["job_id"], end["attempt_id"], end["status"]))

    def _note_finish(self, session: Actor, job_id: int) -> None:
        session.note(lambda book: book.finished(job_id))

    def _take_back(self, session: Actor) -> None:
        for answer in session.attempt("take_back", waits=False) or []:
            self._note_end(session, answer)

    def _enqueue(self, session: Actor, queue: str, jobs: list[Row]) -> None:
        knows_itself = bool(session.notes)
        answers = session.attempt("enqueue_many", waits=True, queue=queue, jobs=Jsonb(jobs))
        made = {answer["job_id"] for answer in answers or [] if answer["status"] == "created"}
        for answer in answers or []:
            if answer["status"] == "existed" and answer["job_id"] not in made and not knows_itself:
                status = session.value("select status from taskq.job_view where id = %s", answer["job_id"])
                assert self.book.may_hold(answer["job_id"], status, self.clock.now), (
                    f"{answer}: it is {status}"
                )
            self._note_request(session, answer["status"], answer["job_id"], queue, jobs[answer["ordinal"]])

    def _note_request(self, session: Actor, status: str, job_id: int, queue: str, job: Row) -> None:
        now, unique_for = self.clock.now, job.get("unique_for")
        request = Request(queue, job.get("unique_key"), job.get("unique_scope", "live"))
        if status == "created":
            session.note(lambda book: book.created(job_id, request, now, unique_for))
        elif status == "replaced":
            session.note(lambda book: book.replaced(job_id, request, now, unique_for))
        else:
            session.note(lambda book: book.met(job_id, request))

    def _is_live(self, session: Actor, attempt: Attempt) -> bool:
        return bool(
            session.rows(
                "select 1 from taskq.running where id = %s and attempt_id = %s",
                attempt.job_id,
                attempt.attempt_id,
            )
        )

    # -- at the end --------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """When every transaction has ended, nobody waits who could run; and everything runs to its end."""
        for each in self.actors:
            each.end(self.book, commits=self.sound)
        if not self.sound:
            return
        worker = self.actors[0]
        self._housekeep(worker)
        for _ in range(ROUNDS):
            self._claim(worker, QUEUES, 100)
            worker.end(self.book, commits=True)
        waiting = self._look().eligible()
        assert not waiting, f"these could run, and {ROUNDS} rounds of claims did not take them: {waiting}"
        self._run_all(worker)

    def _run_all(self, worker: Actor) -> None:
        for key in LIMITED:
            worker.attempt("set_concurrency_limit", waits=False, key=key, max_running=100)
        for queue in QUEUES:
            worker.attempt("resume_queue", waits=False, queue=queue)
        for _ in range(2 * len(self.book.jobs) + 5):
            worker.end(self.book, commits=True)
            self.abandoned.clear()
            self._settle(worker, list(self.book.running.values()), "complete")
            if self._claim(worker, QUEUES, 100) == 0:
                worker.end(self.book, commits=True)
                seen = self._look()
                if not seen.ready and not seen.running:
                    return
                self.clock.forward(hours=2)
                self._housekeep(worker)
        raise AssertionError(f"still there: {self._look()}")

    def _housekeep(self, worker: Actor) -> None:
        for _ in range(2):  # the first take-back after a long time leaves the late ones to their owners
            worker.attempt("expire_ttl", waits=False)
            self._take_back(worker)
            worker.end(self.book, commits=True)


def sessions(contracts: list[Any]) -> list[Actor]:
    """Return the four sessions of the machine over these connections."""
    return [Actor(conn, name) for conn, name in zip(contracts, ["w0", "w1", "w2", "producer"], strict=True)]
