"""The parts of one worker, made and joined to one another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import frozen

from taskq_sync.client import TaskQ
from taskq_sync.model import Verdict
from taskq_sync.worker import claimer as claiming
from taskq_sync.worker import singleton as singletons
from taskq_sync.worker import time_limits
from taskq_sync.worker.attempts import Attempts, LiveAttempt
from taskq_sync.worker.beat_answers import BeatAnswers
from taskq_sync.worker.beat_call import BeatCall
from taskq_sync.worker.beat_process import BeatProcess
from taskq_sync.worker.children import Children
from taskq_sync.worker.claimer import Claimer
from taskq_sync.worker.config import WorkerConfig
from taskq_sync.worker.events import Events
from taskq_sync.worker.heartbeat import Heartbeat
from taskq_sync.worker.housekeeper import Housekeeper
from taskq_sync.worker.isolation import Isolation
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.link import Link
from taskq_sync.worker.listener import NotificationListener
from taskq_sync.worker.pauses import Pauses
from taskq_sync.worker.presence import Presence
from taskq_sync.worker.recycling import Recycling
from taskq_sync.worker.runner import Runner
from taskq_sync.worker.settler import Settler
from taskq_sync.worker.singleton import Singleton
from taskq_sync.worker.slots import Slots
from taskq_sync.worker.threads import service_name
from taskq_sync.worker.time_limits import TimeLimits
from taskq_sync.worker.transaction import Transactions


@frozen
class Parts:
    """What a worker consists of, in the order in which the threads start."""

    singleton: Singleton | None
    attempts: Attempts
    presence: Presence
    transactions: Transactions
    children: Children
    settler: Settler
    heartbeat: Heartbeat
    limits: TimeLimits
    slots: Slots
    housekeeper: Housekeeper
    listener: NotificationListener | None
    claimer: Claimer

    @property
    def ended(self) -> bool:
        """Whether no thread runs any more."""
        services = (
            self.singleton,
            self.settler,
            self.heartbeat,
            self.limits,
            self.slots,
            self.housekeeper,
            self.listener,
            self.claimer,
        )
        return all(each is None or each.ended for each in services)


def make_parts(
    tq: TaskQ,
    config: WorkerConfig,
    lifecycle: Lifecycle,
    events: Events,
    ended: Callable[[str, BaseException | None], None],
) -> Parts:
    """Return the parts; nothing connects or starts. Each thread calls *ended* as its last act."""
    jobs, database = tq.jobs, tq.database
    name = partial(service_name, config.worker_id)
    attempts = Attempts()
    pauses = Pauses(events)
    presence = Presence(config, jobs, lifecycle, pauses)
    transactions = Transactions(
        database.pool(name("transaction"), config.transactions), jobs, config.worker_id
    )

    def link(part: str) -> Link:
        return Link(part, partial(database.connect, name(part)), lifecycle)

    # The slots and the settler wake the claimer, which needs both of them.
    def wake_claimer() -> None:
        claimer.wake()

    def settle(attempt: LiveAttempt, verdict: Verdict) -> None:
        settler.put(attempt, verdict)

    children = Children(
        config.application,
        worker_id=config.worker_id,
        max_jobs=config.isolated_max_jobs,
        unwanted=lambda: lifecycle.handlers_must_end,
    )
    isolation = Isolation(
        children, grace=config.stop_grace, attempts=attempts, lifecycle=lifecycle, events=events
    )
    limits = TimeLimits(
        name=name(time_limits.PART),
        grace=config.stop_grace,
        max_stuck=config.slots if config.max_stuck is None else config.max_stuck,
        lifecycle=lifecycle,
        events=events,
        ended=ended,
    )
    runner = Runner(
        registry=tq.registry,
        attempts=attempts,
        settle=settle,
        isolation=isolation,
        limits=limits,
        transactions=transactions,
        pauses=pauses,
        lifecycle=lifecycle,
        events=events,
    )
    settler = Settler(
        name=name("settler"),
        worker_id=config.worker_id,
        link=link("settler"),
        jobs=jobs,
        attempts=attempts,
        amend=runner.amend,
        freed=wake_claimer,
        events=events,
        ended=ended,
    )
    slots = limits.slots = Slots(config.slots, name=name, run=runner.run, hungry=wake_claimer, ended=ended)
    claimer = Claimer(
        name=name(claiming.PART),
        config=config,
        link=link(claiming.PART),
        jobs=jobs,
        slots=slots,
        settler=settler,
        attempts=attempts,
        pauses=pauses,
        lifecycle=lifecycle,
        events=events,
        ended=ended,
    )
    heartbeat = Heartbeat(
        name=name("heartbeat"),
        call=BeatCall(link("heartbeat"), jobs, config.worker_id),
        attempts=attempts,
        answers=BeatAnswers(attempts, events),
        events=events,
        lifecycle=lifecycle,
        ended=ended,
        process=_make_beat_process(tq, config, attempts, lifecycle, events, ended),
    )
    housekeeper = Housekeeper(
        name=name("housekeeper"),
        config=config,
        link=Link("housekeeper", partial(database.connect, name("housekeeper")), None),
        jobs=jobs,
        attempts=attempts,
        presence=presence,
        recycling=Recycling(config, lifecycle, events),
        events=events,
        ended=ended,
    )
    return Parts(
        singleton=_make_singleton(tq, config, lifecycle, events, ended),
        attempts=attempts,
        presence=presence,
        transactions=transactions,
        children=children,
        settler=settler,
        heartbeat=heartbeat,
        limits=limits,
        slots=slots,
        housekeeper=housekeeper,
        listener=_make_listener(tq, config, claimer, housekeeper, events, ended),
        claimer=claimer,
    )


def _make_singleton(
    tq: TaskQ,
    config: WorkerConfig,
    lifecycle: Lifecycle,
    events: Events,
    ended: Callable[[str, BaseException | None], None],
) -> Singleton | None:
    if config.singleton is None:
        return None
    return Singleton(
        name=service_name(config.worker_id, singletons.PART),
        singleton=config.singleton,
        database=tq.database,
        workers=tq.workers,
        lifecycle=lifecycle,
        events=events,
        ended=ended,
    )


def _make_beat_process(
    tq: TaskQ,
    config: WorkerConfig,
    attempts: Attempts,
    lifecycle: Lifecycle,
    events: Events,
    ended: Callable[[str, BaseException | None], None],
) -> BeatProcess | None:
    """Return what keeps the child process that beats, and is told of attempts and signs; None with a thread."""
    if config.heartbeat == "thread":
        return None
    made = BeatProcess(
        name=service_name(config.worker_id, "heartbeat-process"),
        worker_id=config.worker_id,
        database=tq.database.config,
        stall_limit=config.stall_limit,
        attempts=attempts,
        events=events,
        ended=ended,
    )
    attempts.show(made, grace=config.stop_grace)
    lifecycle.sign(made.sign)
    return made


def _make_listener(
    tq: TaskQ,
    config: WorkerConfig,
    claimer: Claimer,
    housekeeper: Housekeeper,
    events: Events,
    ended: Callable[[str, BaseException | None], None],
) -> NotificationListener | None:
    """Return the listener; None where nothing can listen, and in a burst, which never sleeps."""
    if config.burst or not tq.database.config.can_listen:
        return None
    return NotificationListener(
        name=service_name(config.worker_id, "listener"),
        config=config,
        database=tq.database,
        claimer=claimer,
        called=housekeeper.hurry,
        events=events,
        ended=ended,
    )
