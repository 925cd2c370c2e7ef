"""The program of the child process that beats for a worker, so that no handler can keep a beat from being sent.

A call in C that keeps the interpreter to itself stops every thread of the worker. This process has an interpreter of
its own. It knows the attempts that the worker holds, and beats them when it is asked to, and by itself when the worker
is late to ask. It knows nothing of the user's program.

It beats no attempt whose time is up, and none at all when the main thread of the worker has given no sign for so long
that it must be taken for stuck: what nobody will end is left to its lease. It ends with its worker.
"""

from __future__ import annotations

import math
import os
import sys
from functools import partial
from typing import Any, NoReturn

from taskq_sync.clock import monotonic
from taskq_sync.db.config import DatabaseConfig
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.pool import Database
from taskq_sync.errors import TaskQError
from taskq_sync.model import Beat
from taskq_sync.worker.beat_call import BeatCall
from taskq_sync.worker.beat_messages import Answer, Kept, answer_to_plain, kept_of
from taskq_sync.worker.channel import Channel, ChannelClosed, Message
from taskq_sync.worker.child_start import begin
from taskq_sync.worker.link import Link
from taskq_sync.worker.threads import Event, Lock, Service, SimpleQueue, service_name

#: The part of the worker that this is, in the name of its connection.
PART = "heartbeat-child"

#: The worker asks in time, unless it cannot. When it is late by this share of the beat, the child goes ahead.
LATE_SHARE = 0.25

#: Seconds between two looks whether the worker still is the parent.
LOOK_EVERY = 0.5


def main(channel_descriptor: int, lifeline: int, worker_id: str, parent: int) -> NoReturn:
    """Beat until the worker says that it is over, or is gone; then end the process."""
    channel = begin(channel_descriptor, lifeline)
    try:
        channel.send({"ready": True})
        first = channel.receive()
        assert first is not None
        given = first["begin"]
        database = Database(DatabaseConfig(**given["database"]))
        link = Link(PART, partial(database.connect, service_name(worker_id, PART)), None)
        call = BeatCall(link, Jobs(database.statements), worker_id)
        BeatChild(channel, call, parent=parent, stall_limit=given["stall_limit"]).serve()
    except ChannelClosed:
        pass
    except TaskQError:  # no waiting mends it; the worker's own thread meets the same, and says so
        sys.exit(1)
    channel.close()
    sys.exit(0)


class BeatChild:
    """The main thread beats; one more reads the channel, and one writes to it.

    `_lock` guards the table `_kept`. What else the reader writes is a flag, or an instant. The writer may have to wait
    for a worker that does not read; the beats go on.
    """

    def __init__(self, channel: Channel, call: BeatCall, *, parent: int, stall_limit: float) -> None:
        self._channel = channel
        self._call = call
        self._parent = parent
        self._stall_limit = stall_limit
        self._lock = Lock()
        self._kept: dict[int, Kept] = {}
        self._wanted = Event()
        self._asked = False
        self._heard = True  # something has come from the worker since it was last told anything
        self._sign_at = monotonic()
        self._ending = False
        self._failing = False
        self._not_before = 0.0
        self._stalled = False
        self._untold: dict[int, Answer] = {}
        self._outbox: SimpleQueue[Message | None] = SimpleQueue()

    def serve(self) -> None:
        """Beat until the worker says that it is over, or the channel is closed."""
        for name, body in (("reader", self._read), ("writer", self._write)):
            Service(f"taskq-beat-{name}", body, lambda name, fault: None, daemon=True).start()
        try:
            self._connect_early()
            while not self._ending:
                self._turn()
        finally:
            self._outbox.put(None)
            self._call.close()

    # The main thread

    def _turn(self) -> None:
        if os.getppid() != self._parent:  # another process may have inherited its end of the channel
            os._exit(1)
        now = monotonic()
        self._look_for_sign(now)
        due = self._due(now)
        if due <= now:
            self._beat()
        elif self._untold and self._heard:
            self._tell(asked=False)
        else:
            self._wanted.wait(min(due - now, LOOK_EVERY))
            self._wanted.clear()

    def _due(self, now: float) -> float:
        """Return the instant at which something is to be sent to the database, or to whoever has asked for it."""
        if self._failing:
            return self._not_before
        if self._asked:
            return now
        return min(
            (each.beat_at + LATE_SHARE * each.terms.beat for each in self._to_beat(now)), default=math.inf
        )

    def _to_beat(self, now: float) -> list[Kept]:
        if self._stalled:
            return []
        with self._lock:
            return [each for each in self._kept.values() if now < each.beaten_until]

    def _look_for_sign(self, now: float) -> None:
        stalled = now >= self._sign_at + self._stall_limit
        if stalled and not self._stalled:
            self._outbox.put({"stalled": True})
        self._stalled = stalled

    def _connect_early(self) -> None:
        try:
            self._call.connect()
        except TaskQError as error:
            self._failed(error)
        else:
            self._tell(asked=False)

    def _beat(self) -> None:
        asked, self._asked = self._asked, False  # who asks from here on is answered by the next one
        sent_at = monotonic()
        held = self._to_beat(sent_at)
        checkpoints = {each.fence: text for each in held if (text := each.checkpoint) is not None}
        if held or self._failing:
            try:
                beats = self._call.send(held, checkpoints)
            except TaskQError as error:
                self._asked = self._asked or asked
                self._failed(error)
                return
            self._failing = False
            for each, beat in zip(held, beats, strict=True):
                self._apply(each, beat, sent_at, checkpoints.get(each.fence))
        if asked or self._heard:
            self._tell(asked=asked)

    def _apply(self, kept: Kept, beat: Beat, sent_at: float, checkpoint: str | None) -> None:
        if beat.state == "ok":
            kept.renewed(sent_at)
        elif beat.state == "busy":
            kept.found_busy(sent_at)
        else:
            self._drop([kept.fence])
        if beat.state == "ok" and kept.checkpoint is checkpoint:  # else there is a newer one by now
            kept.checkpoint = None
        self._untold[kept.fence] = Answer(beat, sent_at, checkpoint).over(self._untold.get(kept.fence))

    def _tell(self, *, asked: bool) -> None:
        self._heard = False
        untold, self._untold = self._untold, {}
        self._outbox.put({"answers": [answer_to_plain(each) for each in untold.values()], "asked": asked})

    def _failed(self, error: TaskQError) -> None:
        self._not_before = monotonic() + self._call.failed(error)
        self._failing = True
        if self._heard:
            self._heard = False
            self._outbox.put({"failed": str(error)})

    # The writer

    def _write(self) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                self._channel.send(message)
        except ChannelClosed:
            self._ending = True
            self._wanted.set()

    # The reader

    def _read(self) -> None:
        try:
            while not self._ending:
                message = self._channel.receive()
                assert message is not None
                self._hear(message)
                self._heard = True
                self._wanted.set()
        except ChannelClosed:
            self._ending = True
            self._wanted.set()

    def _hear(self, message: dict[str, Any]) -> None:
        if "sign" in message:
            self._sign_at = monotonic()
        if "hold" in message:
            self._hold([kept_of(each) for each in message["hold"]])
        if "drop" in message:
            self._drop(message["drop"])
        if "limit" in message:
            self._limit(*message["limit"])
        if "ask" in message:
            self._take_checkpoints(message["ask"])
            self._asked = True
        if "end" in message:
            self._ending = True

    def _hold(self, attempts: list[Kept]) -> None:
        with self._lock:
            for each in attempts:
                self._kept.setdefault(each.fence, each)

    def _drop(self, fences: list[int]) -> None:
        with self._lock:
            for fence in fences:
                self._kept.pop(fence, None)

    def _limit(self, fence: int, until: float) -> None:
        with self._lock:
            kept = self._kept.get(fence)
            if kept is not None:
                kept.beaten_until = until

    def _take_checkpoints(self, checkpoints: dict[str, str]) -> None:
        with self._lock:
            for fence, text in checkpoints.items():
                kept = self._kept.get(int(fence))
                if kept is not None:
                    kept.checkpoint = text
