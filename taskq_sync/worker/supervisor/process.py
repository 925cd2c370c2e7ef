"""One worker process, seen from its supervisor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

from taskq_sync.clock import monotonic
from taskq_sync.worker.channel import Channel, ChannelClosed, Message
from taskq_sync.worker.child_process import interpreter_options
from taskq_sync.worker.membership import Membership


class SupervisedProcess:
    """A running `taskq-sync worker`. Belongs to the thread of the supervisor.

    `serves_since` is the monotonic instant at which it had started, None before that. `spent` says why it wants to be
    replaced. `refused` means that it could not start for a reason that the next one would have too.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        supervisor: str,
        place: int,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start `taskq-sync worker` with *arguments*. Raises OSError if the system has no room for it."""
        self.serves_since: float | None = None
        self.spent: str | None = None
        self.refused = False
        self._said_code: int | None = None
        ours, theirs = socket.socketpair()
        self._channel: Channel | None = Channel(ours)
        membership = Membership(supervisor=supervisor, process=place, channel=theirs.fileno())
        try:
            self._popen = subprocess.Popen(
                [sys.executable, *interpreter_options(), "-m", "taskq_sync", "worker", *arguments],
                env={**os.environ, **(env or {}), **membership.to_environment()},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                # A terminal sends Ctrl-C to all of a group: the worker would take ours for the second one.
                start_new_session=True,
            )
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def channel(self) -> Channel | None:
        """Where something may be heard of it, None when nothing will be any more."""
        return self._channel

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal, None while it runs."""
        code = self._popen.poll()
        if code == -signal.SIGTERM and self._said_code is not None:
            return self._said_code  # the signal came when all was done
        return code

    def hear(self) -> None:
        """Take note of what it has said so far. Does not block."""
        try:
            while self._channel is not None and (message := self._channel.receive(0)) is not None:
                if "serves" in message:
                    self.serves_since = monotonic()
                self.spent = message.get("spent", self.spent)
                self.refused = message.get("refused", self.refused)
                self._said_code = message.get("ended", self._said_code)
        except ChannelClosed:
            self.close()

    def stop(self) -> None:
        """Ask it to stop softly; asked again, it no longer waits for its handlers.

        By the channel, so that a signal from elsewhere does not make this the second time: systemd sends one to all
        processes of a service. Before it serves nobody may be there to hear, and a signal ends it.
        """
        told = self._tell({"stop": True})
        if self.serves_since is None or not told:
            self._popen.send_signal(signal.SIGTERM)

    def _tell(self, message: Message) -> bool:
        if self._channel is None:
            return False
        try:
            self._channel.send(message)
        except ChannelClosed:
            return False
        return True

    def kill(self) -> None:
        """End it now."""
        self._popen.kill()

    def close(self) -> None:
        """Let go of what is left of a process that has ended."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
