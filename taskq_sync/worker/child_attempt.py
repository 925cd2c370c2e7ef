"""The attempt of a child process: what its handler does to it, the worker is told."""

from __future__ import annotations

from typing import Any

from taskq_sync.model import ClaimedJob
from taskq_sync.worker.attempts import LiveAttempt, Stage
from taskq_sync.worker.channel import Channel
from taskq_sync.worker.threads import Event


class ChildAttempt(LiveAttempt):
    """An attempt whose beats are sent by another process.

    Checkpoints go there when they are made. The stage goes there before the database hears of it: a beat that finds
    the attempt settled must find it `SETTLING` in the worker, or it would be reported as lost.
    """

    __slots__ = ("_channel", "_noted")

    def __init__(self, job: ClaimedJob, channel: Channel, *, deadline: float) -> None:
        """Hold *job*, whose lease is relied on until the monotonic instant *deadline*."""
        self._channel: Channel | None = None
        self._noted = Event()
        super().__init__(job, sent_at=deadline)
        self.deadline = deadline
        self._channel = channel

    def __setattr__(self, name: str, value: object) -> None:
        if name == "checkpoint" and value is not None:
            self._tell({"checkpoint": value})
        elif name == "stage" and value is not Stage.WAITING:
            self._tell_stage(value)
        super().__setattr__(name, value)

    def hear(self, message: dict[str, Any]) -> None:
        """Apply what the worker says. Called by the reader's thread."""
        if "lease" in message:
            self.deadline = message["lease"]
        if "cancel" in message:
            self.cancel_requested = True
        if "lost" in message:
            self.lost = True
        if "noted" in message:
            self._noted.set()
        if "stored" in message:
            current = self.checkpoint
            if current == message["stored"]:
                self.stored_checkpoint = current  # of a newer one, set meanwhile, this says nothing
        flush = self.flush
        if flush is not None:
            flush.set()

    def _tell(self, message: dict[str, Any]) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def _tell_stage(self, stage: object) -> None:
        if not isinstance(stage, Stage) or stage is self.stage:
            return
        self._noted.clear()
        self._tell({"stage": stage.value})
        if stage is Stage.SETTLING:
            self._noted.wait()


class FlushWish(Event):
    """What a context sets when it wants a beat for its checkpoint; here the worker sends the beats."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def set(self) -> None:
        """Ask the worker for a beat."""
        self._channel.send({"flush": True})
