"""The heartbeat: keeps what this worker holds, and hears what the database has to say about it.

One call renews all attempts, whether their handler runs, waits for a slot, or has ended with a verdict that
is still on its way. It carries checkpoints there and brings requests to cancel back. The connection is its
own: no handler and no other part can keep a beat from being sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from taskq_sync.clock import monotonic
from taskq_sync.errors import TaskQError
from taskq_sync.worker.attempts import Attempts
from taskq_sync.worker.beat_answers import BeatAnswers
from taskq_sync.worker.beat_call import BeatCall
from taskq_sync.worker.threads import Service


class Heartbeat:
    """One thread, which sleeps until the next beat is due and does nothing while no attempt is held."""

    def __init__(
        self,
        *,
        name: str,
        call: BeatCall,
        attempts: Attempts,
        answers: BeatAnswers,
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        self._call = call
        self._attempts = attempts
        self._answers = answers
        self._failing = False
        self._not_before = 0.0
        self._ending = False
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread."""
        self._service.start()

    def stop(self) -> None:
        """End after the beat that is under way. Does not block; may be called twice, and before `start`."""
        self._ending = True
        self._attempts.beat_wanted.set()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run."""
        return self._service.ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        return self._service.join(timeout)

    def _run(self) -> None:
        wanted = self._attempts.beat_wanted
        self._connect_early()
        try:
            while not self._ending:
                seconds = self._until_next()
                if seconds > 0:
                    wanted.wait(None if seconds == math.inf else seconds)
                    wanted.clear()
                elif not self._failing or monotonic() >= self._not_before:
                    self._beat()
        finally:
            self._call.close()

    def _connect_early(self) -> None:
        try:
            self._call.connect()
        except TaskQError as error:
            self._failed(error)

    def _until_next(self) -> float:
        """Return the seconds until something is to be done: a beat, or telling a handler of its deadline."""
        now = monotonic()
        due = self._attempts.plan_beat()
        if self._failing:
            # Also when nothing is held: the worker claims nothing until this part has found the database again.
            due = min(self._not_before, self._answers.tell_doubtful(now))
        return max(0.0, due - now)

    def _beat(self) -> None:
        held = [attempt for attempt in self._attempts.held() if not attempt.lost]
        checkpoints = {
            attempt.fence: text for attempt in held if (text := attempt.unsent_checkpoint) is not None
        }
        sent_at = monotonic()
        try:
            beats = self._call.send(held, checkpoints)
        except TaskQError as error:
            self._failed(error)
            return
        self._failing = False
        for attempt, beat in zip(held, beats, strict=True):
            self._answers.apply(attempt, beat, sent_at, checkpoints.get(attempt.fence))
        self._answers.tell_doubtful(monotonic())

    def _failed(self, error: TaskQError) -> None:
        self._not_before = monotonic() + self._call.failed(error)
        self._failing = True
