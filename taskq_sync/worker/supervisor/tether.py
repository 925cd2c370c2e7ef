"""What ties a worker process to its supervisor: it tells how far it is, and stops when the supervisor is gone."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from taskq_sync.errors import TaskQError
from taskq_sync.worker.channel import Channel, ChannelClosed, Message
from taskq_sync.worker.events import WorkerEnded, WorkerSpent, WorkerStarted
from taskq_sync.worker.membership import Membership
from taskq_sync.worker.signals import Signals
from taskq_sync.worker.threads import Service
from taskq_sync.worker.worker import Worker


class Tether:
    """The worker's end. One thread hears the supervisor, and its death; messages go out from whichever thread has
    one."""

    def __init__(self, membership: Membership) -> None:
        """Take the socket. Raises OSError if there is none."""
        # The few short messages fit into its buffer, so sending never blocks, whatever the supervisor does.
        self._channel = Channel(socket.socket(fileno=membership.channel))

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """While the block lasts the worker is prepared: what it raises of ours, another process would raise too."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, TaskQError):
                self._tell({"refused": True})
            self._channel.close()
            raise

    def run(self, worker: Worker) -> int:
        """Run *worker* to its end, which is soft if the supervisor dies, and return the exit code."""
        worker.events.subscribe(WorkerStarted, lambda event: self._tell({"serves": True}))
        worker.events.subscribe(WorkerSpent, lambda event: self._tell({"spent": event.reason}))
        worker.events.subscribe(WorkerEnded, lambda event: self._tell({"ended": event.exit_code}))
        Service("taskq-tether", lambda: self._hear(worker), lambda name, fault: None, daemon=True).start()
        # Around the signals of the worker itself, so that none of the supervisor's comes too early or too late.
        with Signals(worker.stop):
            return worker.run()

    def _hear(self, worker: Worker) -> None:
        asked = 0
        with contextlib.suppress(ChannelClosed):
            while True:
                message = self._channel.receive()
                if message is not None and "stop" in message:
                    asked += 1
                    self._stop(worker, again=asked > 1)
        # Not insistent: if it has asked for a stop before, that is still the soft one.
        worker.stop("the supervisor is gone", insistent=False)

    def _stop(self, worker: Worker, *, again: bool) -> None:
        """Requests and signals are counted apart: it takes two of one kind not to wait."""
        worker.stop("the supervisor asked for it", insistent=again)
        if again:
            worker.stop("the supervisor asked for it again")

    def _tell(self, message: Message) -> None:
        with contextlib.suppress(ChannelClosed):
            self._channel.send(message)
