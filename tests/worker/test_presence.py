"""What a worker tells of itself, and how an operator ends it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest

from kit.outage import Outages
from kit.waiting import eventually
from kit.workers import Gate, WorkerThread
from taskq_sync import JobContext, TaskQ, WorkerNotFound
from taskq_sync.model import StopResult, WorkerSeen
from taskq_sync.version import __version__
from taskq_sync.worker.events import ListeningChanged, StateChanged

Work = Callable[..., WorkerThread]

#: Longer than a test: what it hears before, it hears because it was called.
NEVER = 3600.0


def seen(tq: TaskQ, worker_id: str | None = None) -> list[WorkerSeen]:
    with tq.database.connection() as session:
        return list(tq.workers.list(session, worker_id))


def ask_to_stop(tq: TaskQ, worker_id: str) -> StopResult:
    with tq.database.connection() as session:
        return tq.workers.stop(session, worker_id, actor="test", reason="a test")


def test_a_worker_is_seen_while_it_is_there(tq: TaskQ, work: Work, gate: Gate) -> None:
    @tq.task(queue="q")
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    handler.enqueue()
    worker = work(slots=3, announce_every=20)
    gate.wait()
    # the state is announced again by the housekeeper, a moment after the start
    eventually(lambda: seen(tq)[0].state == "running", "it announces its state")
    [shown] = seen(tq)
    assert (shown.worker_id, shown.host, shown.pid) == (
        worker.worker.worker_id,
        socket.gethostname(),
        os.getpid(),
    )
    assert (shown.version, shown.queues, shown.slots, shown.running) == (__version__, ("q",), 3, 1)
    assert (shown.stop_requested, shown.info) == (False, {"announce_every": 20.0})
    gate.open.set()
    assert worker.stop() == 0
    assert seen(tq) == []


def test_an_idle_worker_that_listens_is_stopped_at_once(tq: TaskQ, work: Work) -> None:
    @tq.task
    def handler() -> None: ...

    one, other = (work(announce_every=NEVER, poll_interval=NEVER) for _ in range(2))
    for each in (one, other):
        each.wait_for(ListeningChanged)
    assert ask_to_stop(tq, one.worker.worker_id) == StopResult(one.worker.worker_id, "requested")
    assert one.join() == 0
    assert [each.reason for each in one.of(StateChanged) if each.after == "stopping"] == [
        "an operator asked for it"
    ]
    assert [each.worker_id for each in seen(tq)] == [other.worker.worker_id]
    assert other.of(StateChanged)[-1].after == "running"


def test_a_call_that_came_while_it_could_not_listen_is_not_lost(
    tq: TaskQ, work: Work, outages: Outages
) -> None:
    @tq.task
    def handler() -> None: ...

    worker = work(announce_every=NEVER, poll_interval=NEVER)
    worker.wait_for(ListeningChanged, lambda event: event.listening)
    eventually(lambda: seen(tq)[0].state == "running", "it announces its state")
    ask = "update taskq.workers set stop_requested = true"  # as stop_worker does, but nobody is notified
    with tq.database.connection() as session:
        session.connection.execute(ask)
    outages.cut("listener")
    assert worker.join() == 0


def test_an_idle_worker_without_notifications_hears_it_when_it_announces_itself(dsn: str) -> None:
    with TaskQ(dsn, pooled=True) as tq:

        @tq.task
        def handler() -> None: ...

        worker = WorkerThread(tq, announce_every=0.1, poll_interval=NEVER).start()
        ask_to_stop(tq, worker.worker.worker_id)
        assert worker.join() == 0


def test_a_worker_that_is_asked_twice_still_waits_for_its_handlers(tq: TaskQ, work: Work, gate: Gate) -> None:
    @tq.task
    def handler(ctx: JobContext) -> None:
        gate.pass_through(ctx)

    job_id = handler.enqueue().job_id
    worker = work(announce_every=0.05)
    gate.wait()
    results = [ask_to_stop(tq, worker.worker.worker_id).result for _ in range(2)]
    assert results == ["requested", "already_requested"]
    worker.wait_for(StateChanged, lambda event: event.after == "stopping")
    gate.open.set()
    assert worker.join() == 0
    assert tq.get(job_id).status == "succeeded"


def test_nobody_of_that_name_is_an_error_of_its_own(tq: TaskQ) -> None:
    with pytest.raises(WorkerNotFound, match="no worker nobody"):
        ask_to_stop(tq, "nobody")
    assert seen(tq, "nobody") == []
