"""What the handlers themselves record: a line for each start, in a file that outlives a killed process.

The demo compares these lines with what the queue says. They come from no table of the queue.
"""

from __future__ import annotations

import os
from pathlib import Path

from attrs import frozen

#: The environment variable that names the file.
VARIABLE = "TASKQ_DEMO_STARTS"


@frozen
class Start:
    """One call of a handler, by the fence of its attempt."""

    job_id: int
    fence: int


class Starts:
    """The file *path*. Several processes may record; what was recorded stays when one of them is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def record(self, job_id: int, fence: int) -> None:
        """Add a line. One write to a file opened for appending is never mixed with that of another process."""
        os.write(self._descriptor, f"{job_id} {fence}\n".encode())

    def read(self) -> list[Start]:
        """Return all starts in the order in which they were recorded."""
        lines = self._path.read_text(encoding="ascii").splitlines()
        return [Start(*map(int, line.split())) for line in lines]

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
