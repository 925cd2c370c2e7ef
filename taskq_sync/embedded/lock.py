"""Locks between processes that the kernel drops when their holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_POLL = 0.01


class FileLock:
    """A flock(2) on a file. It belongs to the open file, hence to every process that inherits the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def exclusive(cls, path: Path) -> FileLock | None:
        """Take the lock alone, or return None if anybody has it."""
        return cls._take(path, fcntl.LOCK_EX)

    @classmethod
    def shared(cls, path: Path) -> FileLock | None:
        """Take the lock together with other sharers, or return None if somebody has it alone."""
        return cls._take(path, fcntl.LOCK_SH)

    @classmethod
    def wait_for(cls, path: Path, timeout: float) -> FileLock | None:
        """Take the lock alone, waiting at most *timeout* seconds; None if it was not to be had."""
        deadline = time.monotonic() + timeout
        while (lock := cls.exclusive(path)) is None and time.monotonic() < deadline:
            # A blocking flock knows no deadline but by a signal, and signals are the main thread's.
            time.sleep(_POLL)
        return lock

    def release(self) -> None:
        """Give the lock up, also for processes that inherited it."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)

    def hand_over(self) -> None:
        """Leave the lock to the processes that inherited it."""
        os.close(self.descriptor)

    @classmethod
    def _take(cls, path: Path, kind: int) -> FileLock | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return cls(descriptor)
