"""The heartbeat: keeps what this worker holds, and hears what the database has to say about it.

One call renews all attempts, whether their handler runs, waits for a slot, or has ended with a verdict that
is still on its way. It carries checkpoints there and brings requests to cancel back. The connection is its
own: no handler and no other part can keep a beat from being sent.

With a heartbeat by process the thread asks a child process for each beat, and applies what comes back. It sends the
beat itself when there is no child, or when that does not answer in time; two beats do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from taskq_sync.clock import monotonic
from taskq_sync.errors import TaskQError
from taskq_sync.worker.attempts import Attempts, LiveAttempt
from taskq_sync.worker.beat_answers import BeatAnswers
from taskq_sync.worker.beat_call import BeatCall, timeout_of
from taskq_sync.worker.beat_messages import Answer, answer_of
from taskq_sync.worker.beat_process import BeatProcess
from taskq_sync.worker.channel import Message
from taskq_sync.worker.events import BeatsWithheld, Events
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.link import CALL_TIMEOUT, LONGEST_PAUSE
from taskq_sync.worker.threads import Service

PART = "heartbeat"

#: A child that cannot reach the database says so, and is heard of again within so many seconds.
FAILING_SILENCE = CALL_TIMEOUT + 2 * LONGEST_PAUSE

#: A child that has answered nothing for so many seconds is replaced.
LONGEST_SILENCE = 20.0

#: A thread that wakes up so many seconds late had no turn meanwhile: an answer may be there that it has not read.
LATE = 1.0


class Heartbeat:
    """One thread, which sleeps until the next beat is due and does nothing while no attempt is held.

    While `_waiting`, nothing is sent before the instant `_not_before`: a call has failed, or the child was asked.
    `_silent_since` is set when the child had its time to answer.
    """

    def __init__(
        self,
        *,
        name: str,
        call: BeatCall,
        attempts: Attempts,
        answers: BeatAnswers,
        events: Events,
        lifecycle: Lifecycle,
        ended: Callable[[str, BaseException | None], None],
        process: BeatProcess | None = None,
    ) -> None:
        """Beats go by *process*, if that is given and able; *call* is for this thread."""
        self._call = call
        self._attempts = attempts
        self._answers = answers
        self._process = process
        self._events = events
        self._lifecycle = lifecycle
        self._waiting = False
        self._not_before = 0.0
        self._asked = False
        self._failing = False  # the child, to reach the database
        self._silent_since: float | None = None
        self._ending = False
        self._service = Service(name, self._run, ended)

    def start(self) -> None:
        """Start the thread."""
        if self._process is not None:
            self._process.start()
        self._service.start()

    def stop(self) -> None:
        """End after the beat that is under way. Does not block; may be called twice, and before `start`."""
        self._ending = True
        self._attempts.beat_wanted.set()
        if self._process is not None:
            self._process.stop()

    @property
    def ended(self) -> bool:
        """Whether the thread does not run, nor the child process."""
        return self._service.ended and (self._process is None or self._process.ended)

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the thread; return whether it has ended."""
        if not self._service.join(timeout):
            return False
        return self._process is None or self._process.join(timeout)

    def _run(self) -> None:
        wanted = self._attempts.beat_wanted
        if self._process is None:
            self._connect_early()
        try:
            while not self._ending:
                self._hear()
                seconds = self._until_next()
                if seconds > 0:
                    wanted.wait(None if seconds == math.inf else seconds)
                    wanted.clear()
                elif not self._waiting or monotonic() >= self._not_before:
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
        if self._waiting:
            # Also when nothing is held: the worker claims nothing until this part has found the database again.
            due = self._not_before
        if self._process is not None:
            if self._process.stalled:
                due = math.inf
            due = min(due, self._answers.tell_doubtful(now, certain=self._is_certain(self._process)))
        elif self._waiting:
            due = min(due, self._answers.tell_doubtful(now))
        return max(0.0, due - now)

    def _is_certain(self, process: BeatProcess) -> bool:
        """Whether no good news can be under way of an attempt whose deadline has passed."""
        return process.stalled or self._failing or self._silent_since is not None

    def _beat(self) -> None:
        now = monotonic()
        held = [
            attempt for attempt in self._attempts.held() if not attempt.lost and now < attempt.beaten_until
        ]
        checkpoints = {
            attempt.fence: text for attempt in held if (text := attempt.unsent_checkpoint) is not None
        }
        if not self._ask(held, checkpoints):
            self._send(held, checkpoints)

    def _send(self, held: list[LiveAttempt], checkpoints: dict[int, str]) -> None:
        sent_at = monotonic()
        try:
            beats = self._call.send(held, checkpoints)
        except TaskQError as error:
            self._failed(error)
            return
        self._waiting = False
        for attempt, beat in zip(held, beats, strict=True):
            self._answers.apply(attempt, beat, sent_at, checkpoints.get(attempt.fence))
        self._answers.tell_doubtful(monotonic())

    def _failed(self, error: TaskQError) -> None:
        self._wait_for(self._call.failed(error))

    def _wait_for(self, seconds: float) -> None:
        self._waiting = True
        self._not_before = monotonic() + seconds

    # With a child process

    def _ask(self, held: list[LiveAttempt], checkpoints: dict[int, str]) -> bool:
        """Have the child beat; return False if this thread has to, because there is none or it is silent."""
        if self._process is None:
            return False
        now = monotonic()
        if self._silent_since is not None:
            if now >= self._silent_since + LONGEST_SILENCE:
                self._process.give_up()
            return False
        if self._asked and now < self._not_before + LATE:
            self._silent_since = now
            return False
        if not self._process.ask(checkpoints):
            return False
        self._asked = True
        self._wait_for(timeout_of(held))
        return True

    def _hear(self) -> None:
        if self._process is not None:
            for message in self._process.said():
                self._hear_message(self._process, message)

    def _hear_message(self, process: BeatProcess, message: Message) -> None:
        if "answers" in message:
            self._heard_well()
            self._call.close()
            self._lifecycle.recover(PART)
            answers = [answer_of(each) for each in message["answers"]]
            for each in answers:
                self._apply(each)
            if message["asked"]:
                self._tell_again(process, {each.beat.attempt_id for each in answers})
                self._answers.tell_doubtful(monotonic())
        elif "failed" in message:
            process.note()
            self._lifecycle.ail(PART, message["failed"])
            self._asked = self._failing = True
            self._silent_since = None
            self._wait_for(FAILING_SILENCE)
        elif "stalled" in message:
            self._events.emit(BeatsWithheld(seconds=process.stall_limit))
        else:  # one has come, or is gone
            self._heard_well()

    def _heard_well(self) -> None:
        self._waiting = self._asked = self._failing = False
        self._silent_since = None

    def _apply(self, answer: Answer) -> None:
        attempt = self._attempts.get(answer.beat.attempt_id)
        if attempt is None:
            return
        # The same text, if there is no newer one by now: what is stored is known by identity.
        checkpoint = attempt.checkpoint if attempt.checkpoint == answer.checkpoint else None
        self._answers.apply(attempt, answer.beat, answer.sent_at, checkpoint)

    def _tell_again(self, process: BeatProcess, answered: set[int]) -> None:
        """What is due and was not answered the child does not know: tell it, and do not ask for it all the time."""
        now = monotonic()
        unknown = [
            attempt
            for attempt in self._attempts.held()
            if attempt.beat_at <= now < attempt.beaten_until
            and attempt.fence not in answered
            and not attempt.lost
        ]
        for attempt in unknown:
            attempt.found_busy(now)
        process.hold(unknown)
