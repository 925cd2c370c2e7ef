"""A job in a child process, from the side of its slot: the slot's thread talks to the child until the job has ended.

The worker beats, hears of cancels and settles as for every job. The child is told, and what it answers is applied to
the attempt. It is killed when it does not end in time after it was told to.

A child that dies by itself has failed the attempt. It is different for a suspect whose task runs in threads otherwise:
a verdict would clear its name, and its next attempt would kill a whole worker. So that job is left to its lease, as if
a worker had died with it: after the third time in a row the database ends it as poison.
"""

from __future__ import annotations

from attrs import define, field

from taskq_sync.clock import Deadline, monotonic
from taskq_sync.errors import JobCancelled, TaskQError
from taskq_sync.model import Verdict
from taskq_sync.registry import TaskSpec
from taskq_sync.worker import verdicts
from taskq_sync.worker.attempts import Attempts, LiveAttempt, Stage
from taskq_sync.worker.channel import ChannelClosed, Message
from taskq_sync.worker.child_process import ChildFailed, ChildProcess
from taskq_sync.worker.children import Children
from taskq_sync.worker.events import ChildKilled, ChildUnavailable, Events, SuspectDied
from taskq_sync.worker.failures import describe
from taskq_sync.worker.lifecycle import Lifecycle
from taskq_sync.worker.messages import job_to_plain, verdict_of
from taskq_sync.worker.reasons import reason_to_end

#: Seconds between two looks at what the child is to be told.
LOOK_EVERY = 0.1
LOOK_EVERY_WHILE_FLUSHING = 0.01

#: Nobody waits for handlers any more: the seconds a child has then. Less than the worker's own last call.
LAST_GRACE = 0.2


class Isolation:
    """Runs attempts in child processes. Holds no state of an attempt, so all slots share one."""

    def __init__(
        self,
        children: Children,
        *,
        grace: float,
        attempts: Attempts,
        lifecycle: Lifecycle,
        events: Events,
    ) -> None:
        """*grace* is the time in seconds that a child has to end after it was told to."""
        self._children = children
        self._grace = grace
        self._attempts = attempts
        self._lifecycle = lifecycle
        self._events = events

    def wants(self, attempt: LiveAttempt, spec: TaskSpec) -> bool:
        """Return whether *attempt* runs in a child process: its task says so, or it may have killed a worker."""
        if spec.isolation == "process":
            return True
        if not attempt.job.suspect:
            return False
        if not self._children.possible:
            self._events.emit(
                ChildUnavailable(
                    job=attempt.job,
                    reason="the worker was not told where a child process finds the program",
                    consequence="it runs in this process, though it may have killed another one",
                )
            )
        return self._children.possible

    def run(self, attempt: LiveAttempt, spec: TaskSpec) -> Verdict | None:
        """Run *attempt* and return its verdict; None when its own transaction has completed the job, or when the
        job is left to its lease. Does not raise."""
        try:
            with self._children.lend(fresh=attempt.job.suspect) as child:
                return _Conversation(
                    child,
                    attempt,
                    spec,
                    self._grace,
                    self._children,
                    self._attempts,
                    self._lifecycle,
                    self._events,
                ).run()
        except ChildFailed as error:
            if self._lifecycle.handlers_must_end:
                return verdicts.given_up(attempt)
            self._events.emit(
                ChildUnavailable(job=attempt.job, reason=str(error), consequence="it is put back for a while")
            )
            return verdicts.of_no_child(attempt.job)
        except _Ended as ended:
            return ended.verdict


class _Ended(Exception):
    """The attempt is over and its child is of no more use."""

    def __init__(self, verdict: Verdict | None) -> None:
        super().__init__()
        self.verdict = verdict


@define
class _Conversation:
    """One attempt in one child."""

    _child: ChildProcess
    _attempt: LiveAttempt
    _spec: TaskSpec
    _grace: float
    _children: Children
    _attempts: Attempts
    _lifecycle: Lifecycle
    _events: Events
    _told_lease: float = 0.0
    _told: set[str] = field(factory=set)
    _flushing: bool = False
    _limit: Deadline = field(factory=Deadline.never)
    _told_to_end: float | None = None

    def run(self) -> Verdict | None:
        """Return the verdict of a child that may be used again. Raises `_Ended` with that of another."""
        attempt = self._attempt
        self._told_lease = attempt.deadline
        if self._spec.timeout is not None:
            self._limit = Deadline.after(self._spec.timeout.total_seconds())
            self._attempts.limit(attempt, self._limit.at)
        try:
            self._child.channel.send({"job": job_to_plain(attempt.job), "deadline": attempt.deadline})
            while True:
                message = self._child.channel.receive(
                    LOOK_EVERY_WHILE_FLUSHING if self._flushing else LOOK_EVERY
                )
                if message is not None and "ended" in message:
                    return self._ended(message)
                if message is not None:
                    self._hear(message)
                elif self._child.has_ended:
                    raise ChannelClosed
                self._tell_news()
                self._kill_in_time()
        except ChannelClosed:
            raise _Ended(self._of_death(self._child.death())) from None

    def _hear(self, message: Message) -> None:
        attempt = self._attempt
        if "checkpoint" in message:
            attempt.checkpoint = message["checkpoint"]
        if "stage" in message:
            attempt.stage = Stage(message["stage"])
            if attempt.stage is Stage.SETTLING:
                self._child.channel.send({"noted": True})
        if "flush" in message:
            self._flushing = True
            attempt.beat_at = 0.0
            self._attempts.beat_wanted.set()

    def _tell_news(self) -> None:
        attempt, send = self._attempt, self._child.channel.send
        if attempt.deadline != self._told_lease:
            self._told_lease = attempt.deadline
            send({"lease": self._told_lease})
        self._tell_once("cancel", attempt.cancel_requested)
        self._tell_once("lost", attempt.lost)
        self._tell_once("must_end", self._lifecycle.handlers_must_end)
        if self._flushing and attempt.unsent_checkpoint is None:
            self._flushing = False
            send({"stored": attempt.stored_checkpoint})

    def _tell_once(self, word: str, holds: bool) -> None:
        if holds and word not in self._told:
            self._told.add(word)
            self._child.channel.send({word: True})

    def _kill_in_time(self) -> None:
        """Kill the child when a reason to end has stood for the grace."""
        if self._attempt.stage is Stage.SETTLING:
            return  # bounded by the time that a call may take; killed now, nobody would know what became of it
        reason = reason_to_end(self._attempt, self._limit, self._lifecycle)
        if reason is None:
            return
        if self._told_to_end is None:
            self._told_to_end = min(monotonic(), self._limit.at)
        grace = LAST_GRACE if self._lifecycle.handlers_must_end else self._grace
        if monotonic() >= self._told_to_end + grace:
            self._child.kill()
            raise _Ended(self._of_kill(reason))

    def _of_kill(self, reason: TaskQError) -> Verdict:
        """Return the verdict of a child that was killed because of *reason*."""
        text = f"{describe(reason)}; its child process was killed"
        giving_up = self._lifecycle.handlers_must_end
        verdict = verdicts.of_exception(self._attempt, self._spec, reason, text, giving_up=giving_up)
        if giving_up and isinstance(reason, JobCancelled) and verdict.verb == "release":
            self._children.forced = True
            self._events.emit(ChildKilled(job=self._attempt.job))
        return verdict

    def _ended(self, message: Message) -> Verdict | None:
        self._attempt.lost = self._attempt.lost or message["lost"]
        self._attempt.commit_unknown = message["commit_unknown"]
        verdict = verdict_of(message["ended"])
        if message["spent"]:
            raise _Ended(verdict)
        return verdict

    def _of_death(self, death: str) -> Verdict | None:
        """Return the verdict of a child that died by itself."""
        attempt = self._attempt
        if attempt.stage is Stage.ENDED:
            return None
        if attempt.stage is Stage.SETTLING:
            attempt.commit_unknown = True
            return verdicts.of_unknown_commit(attempt.job)
        if self._spec.isolation != "process":
            self._events.emit(SuspectDied(job=attempt.job, death=death))
            return None
        return verdicts.of_death(attempt, death)
