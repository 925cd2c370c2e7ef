"""The child process that beats for a worker, seen from the worker: kept alive, told what is held, and heard.

What it does is written in `beat_child`. While there is none, or it is silent, the heartbeat's own thread beats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from taskq_sync.backoff import Backoff
from taskq_sync.clock import monotonic
from taskq_sync.db.config import DatabaseConfig
from taskq_sync.worker.attempts import Attempts, LiveAttempt
from taskq_sync.worker.beat_messages import attempt_to_plain
from taskq_sync.worker.channel import ChannelClosed, Message
from taskq_sync.worker.child_process import START_TIMEOUT, ChildFailed, ChildProcess
from taskq_sync.worker.events import BeatProcessEnded, Events
from taskq_sync.worker.threads import Empty, Event, Service, SimpleQueue

#: What the child runs.
PROGRAM = "taskq_sync.worker.beat_child"

#: The pause before the first new child and the longest one, in seconds; a child that has lived for so long resets it.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0
LIVED_LONG = 60.0

#: Seconds between two looks whether the child is still wanted.
LOOK_EVERY = 1.0

#: In the time that it may give no sign, the main thread gives so many.
SIGNS = 10


class BeatProcess:
    """One thread that keeps a child: starts it, reads what it says, and starts another one when it has ended.

    `stall_limit` is how many seconds the main thread may give no sign.

    Any thread may tell the child something: that is one small document, which the child takes at once. `_child` is
    written by the thread only; `_unwanted` is why it is to be replaced, whoever finds out.
    """

    def __init__(
        self,
        *,
        name: str,
        worker_id: str,
        database: DatabaseConfig,
        stall_limit: float,
        attempts: Attempts,
        events: Events,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        self._worker_id = worker_id
        self.stall_limit = stall_limit
        # Not by the command line of the child: it has a password in it.
        self._begin = {"begin": {"database": attrs.asdict(database), "stall_limit": stall_limit}}
        self._attempts = attempts
        self._events = events
        self._child: ChildProcess | None = None
        self._unwanted = ""
        self._ending = Event()
        self._tried = Event()
        self._said: SimpleQueue[Message] = SimpleQueue()
        self._sign_at = monotonic()
        self._signed_at = 0.0
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread, and wait until a child is there or could not be started.

        Blocks up to `START_TIMEOUT`.
        """
        self._service.start()
        self._tried.wait(START_TIMEOUT)

    def stop(self) -> None:
        """End the child, and the thread. Does not block; may be called twice, and before `start`."""
        self._ending.set()
        self._tell({"end": True})

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        return self._service.join(timeout)

    # What the child is told

    def hold(self, attempts: Sequence[LiveAttempt]) -> None:
        """These are held from now on."""
        if attempts:
            self._tell({"hold": [attempt_to_plain(each) for each in attempts]})

    def drop(self, fences: Sequence[int]) -> None:
        """These are held no longer."""
        if fences:
            self._tell({"drop": fences})

    def limit(self, attempt: LiveAttempt) -> None:
        """Its `beaten_until` has changed."""
        self._tell({"limit": [attempt.fence, attempt.beaten_until]})

    def ask(self, checkpoints: Mapping[int, str]) -> bool:
        """Ask for a beat that carries *checkpoints*; return whether there is a child to ask."""
        return self._tell({"ask": dict(checkpoints)})

    def note(self) -> None:
        """What the child has reported is heard."""
        self._tell({"noted": True})

    def sign(self) -> None:
        """The main thread is alive; called by it."""
        now = monotonic()
        was_stalled, self._sign_at = self.stalled, now
        if was_stalled or now >= self._signed_at + self.stall_limit / SIGNS:
            self._signed_at = now
            self._tell({"sign": True})
        if was_stalled:
            self._attempts.beat_wanted.set()

    @property
    def stalled(self) -> bool:
        """Whether the main thread has given no sign for too long."""
        return monotonic() >= self._sign_at + self.stall_limit

    # What it says

    def said(self) -> Iterator[Message]:
        """Return what the child has said since the last call; `came` and `gone` are said for it."""
        while True:
            try:
                yield self._said.get_nowait()
            except Empty:
                return

    def give_up(self) -> None:
        """The child has not answered for too long: have another one."""
        self._unwanted = "the child process did not answer any more, and was killed"

    # The thread

    def _run(self) -> None:
        backoff = Backoff(base=FIRST_PAUSE, cap=LONGEST_PAUSE)
        while not self._ending.is_set():
            began = monotonic()
            reason = self._live()
            if self._ending.is_set():
                break
            self._events.emit(BeatProcessEnded(reason=reason))
            if monotonic() >= began + LIVED_LONG:
                backoff.reset()
            self._ending.wait(backoff.next())

    def _live(self) -> str:
        """Have a child until it ends, and return how it did."""
        self._unwanted = ""
        try:
            child = ChildProcess(PROGRAM, [self._worker_id, os.getpid()], unwanted=self._ending.is_set)
        except ChildFailed as error:
            self._tried.set()
            return str(error)
        try:
            child.channel.send(self._begin)
            self._child = child
            self.hold(self._attempts.held())
            self._say({"came": True})
            self._tried.set()
            while self._hear(child):
                pass
        except ChannelClosed:
            pass
        finally:
            self._child = None
            self._say({"gone": True})
            self._tried.set()
        if self._unwanted and not child.has_ended:
            child.kill()
            return self._unwanted
        return child.death("while it was wanted")

    def _hear(self, child: ChildProcess) -> bool:
        message = child.channel.receive(LOOK_EVERY)
        if message is not None:
            self._say(message)
        elif self._unwanted or self._ending.is_set() or child.has_ended:
            return False
        return True

    def _say(self, message: Message) -> None:
        self._said.put(message)
        self._attempts.beat_wanted.set()

    def _tell(self, message: Message) -> bool:
        child = self._child
        if child is None:
            return False
        try:
            child.channel.send(message)
        except ChannelClosed:
            if child is self._child:
                self._unwanted = "the child process took nothing any more, and was killed"
            return False
        return True
