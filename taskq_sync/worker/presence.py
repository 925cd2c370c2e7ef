"""What a worker tells the others of itself, and what it is told in return.

Presence is for people and for requests to stop. Nothing decides by it whether a job is alive.
"""

from __future__ import annotations

import os
import socket

from taskq_sync.clock import monotonic
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.session import Session
from taskq_sync.version import __version__
from taskq_sync.worker.config import WorkerConfig
from taskq_sync.worker.lifecycle import Lifecycle, State
from taskq_sync.worker.pauses import Pauses


class Presence:
    """Announces one worker; called by the main thread before the start and by the housekeeper afterwards."""

    def __init__(self, config: WorkerConfig, jobs: Jobs, lifecycle: Lifecycle, pauses: Pauses) -> None:
        self._config = config
        self._jobs = jobs
        self._lifecycle = lifecycle
        self._pauses = pauses
        self._asked_to_stop = False
        self._identity: dict[str, object] = {
            "queues": list(config.queues),
            "slots": config.slots,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "announce_every": config.announce_every,
        }
        if config.membership is not None:
            self._identity |= config.membership.shown()

    def announce(self, session: Session) -> int:
        """Report the state of this moment, and do what the answer asks for. Returns 0, as a chore."""
        self._report(session, self._lifecycle.state)
        return 0

    def leave(self, session: Session) -> int:
        """Take this worker off the list. Returns 0, as a chore."""
        self._report(session, State.STOPPED)
        return 0

    def _report(self, session: Session, state: State) -> None:
        info = {**self._identity, "state": state.value}
        asked_at = monotonic()
        answer = self._jobs.announce(session, self._config.worker_id, info)
        self._pauses.update(answer.paused_queues, asked_at=asked_at)
        if answer.stop_requested and not self._asked_to_stop:
            self._asked_to_stop = True
            self._lifecycle.request_stop("an operator asked for it")
