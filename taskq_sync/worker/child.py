"""The program of a child process: runs one job after the other, as the worker that spawned it says.

It imports the user's program itself. It neither claims nor beats nor settles: verdicts, checkpoints and flags go
over the channel. It has no connection to the database but those that a handler opens, for `ctx.transaction()` and
for what it enqueues. SIGINT and SIGTERM are the worker's affair; the child ends when the worker closes the channel
or is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, NoReturn

from taskq_sync import logs
from taskq_sync.client import TaskQ
from taskq_sync.hooks import WorkerProcess
from taskq_sync.model import Verdict
from taskq_sync.worker import log
from taskq_sync.worker.application import Application
from taskq_sync.worker.attempts import Attempts, LiveAttempt
from taskq_sync.worker.channel import Channel, ChannelClosed
from taskq_sync.worker.child_attempt import ChildAttempt, FlushWish
from taskq_sync.worker.child_runner import ChildRunner
from taskq_sync.worker.child_start import begin
from taskq_sync.worker.events import Events
from taskq_sync.worker.failures import describe
from taskq_sync.worker.hooks import start_worker, stop_worker
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.messages import job_of, verdict_to_plain
from taskq_sync.worker.pauses import Pauses
from taskq_sync.worker.threads import Service, SimpleQueue, service_name
from taskq_sync.worker.transaction import Transactions


def main(channel_descriptor: int, lifeline: int, worker_id: str, application: dict[str, Any]) -> NoReturn:
    """Run jobs until the worker closes the channel, then end the process."""
    channel = begin(channel_descriptor, lifeline)
    try:
        found = Application(**application)
        if found.log_level is not None:
            logs.set_up(found.log_level, found.log_format)
        tq = found.load()
        events = Events()
        log.observe_hooks(events)
        # In the child nothing occurs that its worker does not report, so there are observers in the worker only.
        process = WorkerProcess(worker_id=worker_id, is_child=True, events=Events())
        start_worker(tq.registry.hooks, process)
    except BaseException as error:  # the border to user code
        with contextlib.suppress(ChannelClosed):
            channel.send({"failed": describe(error)})
        sys.exit(1)
    try:
        Child(channel, tq, worker_id, events).serve()
    except ChannelClosed:  # the worker is gone, or wants no answer any more
        os._exit(1)
    stop_worker(tq.registry.hooks, process, events)
    channel.close()
    sys.exit(0)


class Child:
    """The main thread runs handlers; one more reads the channel.

    `_attempt` is set by the reader, before anything else about the job can arrive, and reset by the main thread.
    """

    def __init__(self, channel: Channel, tq: TaskQ, worker_id: str, events: Events) -> None:
        self._channel = channel
        self._attempt: ChildAttempt | None = None
        self._jobs: SimpleQueue[ChildAttempt | None] = SimpleQueue()
        self._lifecycle = Lifecycle(Events())
        self._verdict: Verdict | None = None
        attempts = Attempts()
        attempts.beat_wanted = FlushWish(channel)
        pool = tq.database.pool(service_name(worker_id, f"child-{os.getpid()}"), 1)
        self._runner = ChildRunner(
            registry=tq.registry,
            attempts=attempts,
            settle=self._keep,
            transactions=Transactions(pool, tq.jobs, worker_id),
            pauses=Pauses(Events()),
            lifecycle=self._lifecycle,
            events=events,
        )

    def serve(self) -> None:
        """Run jobs until the channel is closed. Raises `ChannelClosed` when that happens in the middle of one."""
        Service("taskq-child-reader", self._read, lambda name, fault: None, daemon=True).start()
        self._channel.send({"ready": True})
        while (attempt := self._jobs.get()) is not None:
            self._run(attempt)

    def _run(self, attempt: ChildAttempt) -> None:
        self._verdict = None
        attempt.take()
        self._runner.run(attempt)
        self._attempt = None
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a handler may have closed or replaced it
                stream.flush()
        self._channel.send(
            {
                "ended": verdict_to_plain(self._verdict),
                "lost": attempt.lost,
                "commit_unknown": attempt.commit_unknown,
                "spent": self._runner.out_of_memory,
            }
        )

    def _keep(self, attempt: LiveAttempt, verdict: Verdict) -> None:
        self._verdict = verdict

    def _read(self) -> None:
        try:
            while True:
                message = self._channel.receive()
                assert message is not None
                self._hear(message)
        except ChannelClosed:
            if self._attempt is not None:
                os._exit(1)
            self._jobs.put(None)

    def _hear(self, message: dict[str, Any]) -> None:
        if "job" in message:
            attempt = ChildAttempt(job_of(message["job"]), self._channel, deadline=message["deadline"])
            self._attempt = attempt
            self._jobs.put(attempt)
        elif "must_end" in message:
            self._lifecycle.end_handlers()
        elif self._attempt is not None:
            self._attempt.hear(message)
