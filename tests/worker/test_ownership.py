"""Who owns a job: beats, leases in doubt, verdicts that wait for the database."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kit.contract import Connection, Contract
from kit.outage import Outages
from kit.waiting import PATIENCE, eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ
from taskq_sync.db.pool import Database
from taskq_sync.db.session import Session
from taskq_sync.errors import DatabaseUnavailable, LeaseLost, OutcomeUnknown
from taskq_sync.worker import settler, waiting
from taskq_sync.worker.events import (
    AttemptsSettled,
    JobEnded,
    LeaseDoubtful,
    LeaseWasLost,
    StateChanged,
    VerdictRefused,
    VerdictsUndelivered,
)
from taskq_sync.worker.prefetch import Prefetch

Drain = Callable[..., WorkerThread]
Work = Callable[..., WorkerThread]

PARTS = ["claimer", "settler", "heartbeat", "housekeeper", "listener"]


def states(worker: WorkerThread) -> list[str]:
    return [event.after for event in worker.of(StateChanged)]


def test_a_job_longer_than_its_lease_is_started_once(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract
) -> None:
    """B02, B05, B10: a second worker looks all the time and takes back what it can."""
    starts: list[int] = []

    @tq.task(queue="q", lease=0.6)
    def handler(ctx: JobContext) -> None:
        starts.append(ctx.fence)
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    work(slots=1, take_back_every=0.05)
    gate.wait()
    work(slots=1, take_back_every=0.05, poll_interval=0.05)
    first = sql.job(job_id)["lease_expires_at"]
    eventually(
        lambda: sql.value("select taskq.clock() > %s + interval '1.2 s'", first), "two leases have passed"
    )
    gate.open.set()
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is completed")
    assert len(starts) == 1


def test_jobs_that_wait_for_a_slot_are_beaten_too(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 60.0)
    monkeypatch.setattr(Prefetch, "claimed", lambda self, **_: setattr(self, "target", 3))

    @tq.task(queue="q", lease=0.6)
    def handler(ctx: JobContext, number: int) -> None:
        if number == 0:
            gate.pass_through(ctx)

    jobs = [each.job_id for each in tq.enqueue_many(handler.job(number=number) for number in range(4))]
    worker = work(slots=1)
    gate.wait()
    eventually(lambda: sql.value("select count(*) from taskq.running") == 4, "three wait for the slot")
    claimed = {job_id: sql.job(job_id)["claimed_at"] for job_id in jobs}
    eventually(
        lambda: sql.value("select min(lease_expires_at - claimed_at) > '1.2 s' from taskq.running"),
        "all leases are renewed again and again",
    )
    assert {job_id: sql.job(job_id)["claimed_at"] for job_id in jobs} == claimed
    assert not worker.of(LeaseWasLost)


def test_the_verdict_of_an_ended_handler_survives_an_outage(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, outages: Outages
) -> None:
    @tq.task(queue="q")
    def handler(ctx: JobContext) -> str:
        gate.pass_through(ctx)
        return "done"

    job_id = handler.enqueue().job_id
    worker = work(slots=1)
    gate.wait()
    with outages.away():
        gate.open.set()
        worker.wait_for(JobEnded)
        eventually(lambda: worker.worker._lifecycle.ails("settler"), "the verdict was sent in vain")
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the verdict arrives")
    assert sql.job(job_id)["attempt_count"] == 1
    eventually(lambda: states(worker) == ["running", "degraded", "running"], "one line for each change")


def test_a_lease_in_doubt_is_told_and_healed_when_nobody_took_the_job(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, outages: Outages
) -> None:
    """An outage longer than the lease costs neither the job nor its budget."""

    @tq.task(queue="q", lease=0.5)
    def handler(ctx: JobContext) -> str:
        gate.pass_through(ctx)
        ctx.checkpoint("still mine", flush=True)
        return "done"

    job_id = handler.enqueue().job_id
    worker = work(slots=1, take_back_every=0.05)
    ctx = gate.wait()
    with outages.away():
        eventually(lambda: ctx.cancelled, "the handler is told")
        with pytest.raises(LeaseLost):
            ctx.checkpoint("half")
        worker.wait_for(LeaseDoubtful)
    eventually(lambda: not ctx.cancelled, "a beat has renewed the lease")
    gate.open.set()
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is completed")
    job = sql.job(job_id)
    assert (job["attempt_count"], job["failure_count"], job["result"]) == (1, 0, "done")
    assert len(worker.of(LeaseDoubtful)) == 1
    assert not worker.of(LeaseWasLost)


def test_a_handler_that_ends_because_of_the_doubt_costs_no_budget(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, outages: Outages
) -> None:
    @tq.task(queue="q", lease=0.5)
    def handler(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            gate.pass_through(ctx)
            eventually(lambda: ctx.cancelled, "the handler is told")
            ctx.raise_if_cancelled()

    job_id = handler.enqueue().job_id
    worker = work(slots=1, take_back_every=0.05)
    gate.wait()
    with outages.away():
        gate.open.set()
        worker.wait_for(JobEnded)
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "a second attempt completes the job")
    job = sql.job(job_id)
    assert (job["attempt_count"], job["failure_count"], job["expiry_streak"]) == (2, 0, 0)


@pytest.mark.parametrize("part", PARTS)
def test_each_connection_may_be_cut_at_any_time(
    tq: TaskQ, work: Work, sql: Contract, outages: Outages, part: str
) -> None:
    """B13, B15, B18."""

    @tq.task(queue="q")
    def handler(number: int) -> None: ...

    worker = work(slots=2, take_back_every=0.05)
    handler.enqueue(number=-1)
    worker.wait_for(AttemptsSettled)
    eventually(lambda: outages.cut(f"-{part}"), f"there is a connection of the {part}")
    results = tq.enqueue_many(handler.job(number=number) for number in range(50))
    eventually(lambda: sql.value("select count(*) from taskq.finished") == 51, "all jobs are run")
    assert {tq.get(result).status for result in results} == {"succeeded"}
    assert worker.stop() == 0


def test_connections_that_are_cut_again_and_again_lose_nothing(
    tq: TaskQ, work: Work, sql: Contract, outages: Outages
) -> None:
    """B13: a claim or a settle whose answer was lost is found again by its lease or its fence."""

    @tq.task(queue="q", lease=0.5, max_attempts=50, backoff=0)
    def handler(number: int) -> None: ...

    results = tq.enqueue_many(handler.job(number=number) for number in range(2000))
    worker = work(slots=4, take_back_every=0.1)
    for _ in range(6):
        eventually(outages.cut, "there are connections to cut")
    eventually(lambda: sql.value("select count(*) from taskq.finished") == 2000, "all jobs are run")
    assert {tq.get(result).status for result in results} == {"succeeded"}
    assert worker.stop() == 0


def test_claims_nothing_while_the_database_is_away_and_recovers_by_itself(
    tq: TaskQ, work: Work, sql: Contract, outages: Outages
) -> None:
    @tq.task(queue="q")
    def handler() -> None: ...

    worker = work(poll_interval=0.05)
    with outages.away():
        worker.wait_for(StateChanged, lambda event: event.after == "degraded")
        job_id = sql.new_job(task=handler.spec.name)
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is run")
    assert states(worker)[:3] == ["running", "degraded", "running"]


def test_a_stop_during_an_outage_leaves_the_jobs_to_their_leases(
    tq: TaskQ, work: Work, gate: Gate, sql: Contract, outages: Outages
) -> None:
    """B16, B70: the verdict is offered until the lease is over, and no longer."""

    @tq.task(queue="q", lease=1)
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work(slots=1)
    gate.wait()
    with outages.away():
        gate.open.set()
        worker.wait_for(JobEnded)
        assert worker.stop() == 1
        assert [event.count for event in worker.of(VerdictsUndelivered)] == [1]
    assert sql.job(job_id)["status"] == "running"


def test_a_row_locked_by_somebody_else_stops_neither_beats_nor_verdicts(
    tq: TaskQ,
    work: Work,
    gate: Gate,
    sql: Contract,
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A `running` row locked in psql holds up its own job only."""
    monkeypatch.setattr(settler, "CALL_TIMEOUT", 0.5)

    @tq.task(name="locked", queue="q", lease=0.6)
    def locked(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    @tq.task(name="other", queue="q", lease=0.6)
    def other(number: int) -> None: ...

    job_id = locked.enqueue().job_id
    worker = work(slots=2)
    gate.wait()
    psql = connect()
    with psql.transaction():
        psql.execute("select from taskq.running where id = %s for update", [job_id])
        gate.open.set()
        worker.wait_for(JobEnded)
        results = tq.enqueue_many(other.job(number=number) for number in range(20))
        eventually(
            lambda: {tq.get(result).status for result in results} == {"succeeded"}, "the others are settled"
        )
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is settled when its row is free")
    assert not worker.of(VerdictRefused)
    assert not worker.of(LeaseWasLost)


def test_a_verdict_that_has_to_wait_holds_up_neither_its_batch_nor_a_beat(
    tq: TaskQ,
    work: Work,
    gate: Gate,
    sql: Contract,
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two handlers end at once, and the row of one is locked in psql; a third one runs on."""
    monkeypatch.setattr(settler, "FLUSH_AFTER", 0.5)  # so that the two verdicts are one batch
    monkeypatch.setattr(settler, "CALL_TIMEOUT", 4.0)
    barrier = threading.Barrier(2, timeout=PATIENCE)
    sizes: list[int] = []

    @tq.task(name="pair", queue="q", lease=60)
    def pair(ctx: JobContext) -> None:
        barrier.wait()
        gate.pass_through(ctx)

    @tq.task(name="third", queue="q", lease=1.5)
    def third() -> None:
        assert over.wait(PATIENCE)

    over = threading.Event()
    locked, free = pair.enqueue(), pair.enqueue()
    worker = work(slots=3)
    worker.worker.events.subscribe(AttemptsSettled, lambda event: sizes.append(len(event.verdicts)))
    gate.wait()
    running = third.enqueue()
    eventually(lambda: tq.get(running).status == "running", "the third handler runs")
    psql = connect()
    with psql.transaction():
        psql.execute("select from taskq.running where id = %s for update", [locked.job_id])
        gate.open.set()
        eventually(lambda: tq.get(free).status == "succeeded", "the other of the batch is settled")
        eventually(
            lambda: sql.value(
                "select lease_expires_at - claimed_at > '4 s' from taskq.running where id = %s",
                running.job_id,
            ),
            "the third lease is renewed meanwhile",
        )
    eventually(lambda: tq.get(locked).status == "succeeded", "the job is settled when its row is free")
    over.set()
    assert worker.stop() == 0
    assert not worker.of(LeaseDoubtful)
    assert not worker.of(VerdictRefused)
    assert max(sizes) == 1, "the batch was not answered, and its verdicts were sent alone"


def test_a_verdict_that_was_delivered_twice_counts_once(
    tq: TaskQ, drain: Drain, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a settle is lost after its commit."""
    execute = Session.execute
    lost: list[str] = []

    def lose_first_answer(self: Session, statement: str, params: dict[str, object]) -> object:
        rows = execute(self, statement, params)
        if "settle(" in statement and not lost:
            lost.append(statement)
            self.close()
            raise OutcomeUnknown("the link to the database broke")
        return rows

    monkeypatch.setattr(Session, "execute", lose_first_answer)

    @tq.task(queue="q")
    def handler(number: int) -> int:
        return number

    results = tq.enqueue_many(handler.job(number=number) for number in range(30))
    worker = drain()
    assert worker.code == 0
    assert lost
    assert [tq.get(result).result for result in results] == list(range(30))
    assert not worker.of(VerdictRefused)
    assert not worker.of(LeaseWasLost)


def test_a_heartbeat_that_fails_while_nothing_is_held_recovers_too(
    tq: TaskQ, work: Work, sql: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is claimed until it has found the database again, so it must look without an attempt to beat."""
    connect = Database.connect
    refused: list[str] = []

    def refuse_the_first(self: Database, name: str, timeout: float | None = None) -> Session:
        if name.endswith("-heartbeat") and not refused:
            refused.append(name)
            raise DatabaseUnavailable("too many connections")
        return connect(self, name, timeout)

    monkeypatch.setattr(Database, "connect", refuse_the_first)

    @tq.task(queue="q")
    def handler() -> None: ...

    work()
    assert refused
    job_id = handler.enqueue().job_id
    eventually(lambda: sql.job(job_id)["status"] == "succeeded", "the job is run")
