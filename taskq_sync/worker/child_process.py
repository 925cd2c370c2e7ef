"""One child process, seen from the worker: spawned, spoken to, and ended.

It is spawned, never forked: a copy of a process with threads may hold locks for ever. It leads a session of its own,
so Ctrl-C does not reach it, and what its handlers have started ends with it when it is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from taskq_sync.clock import Deadline
from taskq_sync.worker.channel import Channel, ChannelClosed

#: Importing the program and connecting may take so many seconds.
START_TIMEOUT = 60.0

#: A child that does not take a message for so many seconds is taken for dead.
SEND_TIMEOUT = 5.0

#: A child that was asked to end, or has closed its channel, has so many seconds.
END_TIMEOUT = 1.0

#: Seconds between two looks whether a starting child is still wanted.
LOOK_EVERY = 0.1

_LOOK_WHETHER_ENDED = 0.01

# The path is that of the worker, so that the child finds the same modules, this one first of all.
_BOOT = (
    "import importlib, json, sys; path, program, *given = json.loads(sys.argv.pop()); sys.path[:] = path;"
    " importlib.import_module(program).main(*given)"
)


class ChildFailed(Exception):
    """A child process could not be started, or is gone; says why."""


class ChildProcess:
    """A running child. Belongs to one thread at a time.

    `jobs` counts what it was given.
    """

    def __init__(self, program: str, given: Sequence[object], *, unwanted: Callable[[], bool]) -> None:
        """Spawn a child and wait until it is ready, or *unwanted*.

        *program* is the module whose `main` it runs: with the descriptors of its channel and its lifeline, and with
        what is *given*, in the types of JSON. Other users of the machine can read that.

        Blocks up to `START_TIMEOUT`. Raises `ChildFailed`.
        """
        self.jobs = 0
        self._gone = False
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            try:
                self._spawn(program, given, ours, theirs)
            except OSError as error:  # the system has no room for a process, or no descriptors
                raise ChildFailed(f"a child process could not be started: {error}") from error
            ours.pop_all()
        self._await_ready(unwanted)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process runs no more. Also true where something else holds its end of the channel."""
        if self._process.returncode is not None:
            return True
        if sys.platform == "darwin":  # has no waitid in all versions of Python
            return self._process.poll() is not None
        # Not reaped: its number must stay its own until its group is killed.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> None:
        """Let an idle child end; kill it if it does not. Blocks for a little over `END_TIMEOUT` at most."""
        self.channel.close()
        self._wait_for_end()
        self.kill()

    def death(self, during: str = "in the middle of the job") -> str:
        """Return how the process ended, if by itself *during* what; it is killed if it has only closed its channel."""
        by_itself = self._wait_for_end()
        self.kill()
        code = self._process.returncode
        if not by_itself:
            return "the child process closed its channel and was killed"
        return f"the child process {describe_exit(code)}" + ("" if code < 0 else f" {during}")

    def kill(self) -> None:
        """End the process and what it has started, now. Does nothing to one that was killed before."""
        if self._gone:
            return
        self._gone = True
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: of a group with only a zombie
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self.channel.close()
        os.close(self._lifeline)

    def _spawn(
        self,
        program: str,
        given: Sequence[object],
        ours: contextlib.ExitStack,
        theirs: contextlib.ExitStack,
    ) -> None:
        """Start the process. What is opened goes into the two stacks, one for the ends of each side. Raises OSError."""
        our_end, their_end = socket.socketpair()
        ours.callback(our_end.close)
        theirs.callback(their_end.close)
        read_end, self._lifeline = os.pipe()
        ours.callback(os.close, self._lifeline)
        theirs.callback(os.close, read_end)
        self.channel = Channel(our_end, timeout=SEND_TIMEOUT)
        words = json.dumps([sys.path, program, their_end.fileno(), read_end, *given])
        self._process = subprocess.Popen(
            [sys.executable, *interpreter_options(), "-c", _BOOT, words],
            stdin=subprocess.DEVNULL,
            pass_fds=(their_end.fileno(), read_end),
            start_new_session=True,
        )

    def _await_ready(self, unwanted: Callable[[], bool]) -> None:
        deadline = Deadline.after(START_TIMEOUT)
        message = None
        try:
            while message is None and not deadline.expired and not unwanted():
                message = self.channel.receive(LOOK_EVERY)
        except ChannelClosed:
            raise ChildFailed(f"a child process did not start: {self.death()}") from None
        if message is not None and "ready" in message:
            return
        self.kill()
        raise ChildFailed(
            f"a child process did not start in {START_TIMEOUT:g} s"
            if message is None
            else f"a child process could not get ready: {message.get('failed')}"
        )

    def _wait_for_end(self) -> bool:
        deadline = Deadline.after(END_TIMEOUT)
        while not self.has_ended:
            if deadline.expired:
                return False
            time.sleep(_LOOK_WHETHER_ENDED)
        return True


def describe_exit(code: int) -> str:
    """Return how a process ended that has left this exit code, negative for a signal."""
    if code < 0:
        return f"was killed by signal {-code}{_name_of(-code)}"
    return f"ended with exit code {code}"


def _name_of(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:  # a real-time signal
        return ""


def interpreter_options() -> Iterator[str]:
    """Return the options of this interpreter that change what a program does."""
    yield from ["-O"] * sys.flags.optimize
    yield from (f"-W{each}" for each in sys.warnoptions)
    yield from (
        f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()
    )
