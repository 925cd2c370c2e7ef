"""One of the places of a supervisor: there is one process in it after the other."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from taskq_sync.backoff import Backoff
from taskq_sync.clock import monotonic
from taskq_sync.worker.child_process import describe_exit
from taskq_sync.worker.shutdown import EXIT_DRAINED, EXIT_FAILED
from taskq_sync.worker.supervisor.process import SupervisedProcess
from taskq_sync.worker.worker import EXIT_JOBS_FAILED, EXIT_UNAVAILABLE

logger = logging.getLogger("taskq_sync.supervisor")

#: How a process ends that nothing has happened to.
ENDED_AS_TOLD = (EXIT_DRAINED, EXIT_JOBS_FAILED)

#: The pause before a process that has died is replaced, in seconds; it doubles from death to death.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0

#: After so many seconds of service a death is the first one again.
STEADY_AFTER = 60.0


class Place:
    """`due_at` is the monotonic instant of the next start: `math.inf` while there is a process, or none is due.

    `left` is for ever: nothing starts here any more, and `code` is what counts at the end. Before, it is the exit code
    of the last process that has died. `failed_starts` counts the processes in a row that have ended before they
    served; those that the database did not answer are not among them.
    """

    def __init__(
        self,
        index: int,
        start: Callable[[int], SupervisedProcess],
        hopeless: Callable[[Place, bool], bool],
    ) -> None:
        """Nothing starts before `due_at` is set.

        *hopeless* is asked whether a process that has died should have no successor; it is told whether the process
        itself has said so.
        """
        self.index = index
        self.process: SupervisedProcess | None = None
        self.due_at = math.inf
        self.code = 0
        self.left = False
        self.has_served = False
        self.failed_starts = 0
        self._start = start
        self._hopeless = hopeless
        self._backoff = Backoff(base=FIRST_PAUSE, cap=LONGEST_PAUSE)
        self._stopping = False
        self._spent_told = False
        self._jobs_have_failed = False  # in a process that was replaced when it was spent

    def look(self) -> None:
        """Start a process that is due, listen to the one that runs, and decide what comes after one that has ended."""
        if self.process is None:
            if monotonic() >= self.due_at and not self.left:
                self._fill()
            return
        process = self.process
        ended = process.code is not None  # looked at first: what it has said before its end is heard now
        process.hear()
        self.has_served = self.has_served or process.serves_since is not None
        if process.spent is not None and not self._spent_told:
            self._spent_told = True
            logger.info("process %d (pid %d) is to be replaced: %s", self.index, process.pid, process.spent)
        if ended:
            self.process = None
            process.close()
            self._ended(process)

    def stop(self) -> None:
        """Ask the process to stop, if there is one; none comes after it."""
        self._stopping = True
        if self.process is not None:
            self.process.stop()
        elif not self.left:
            self.left = True
            self.code = self._with_failures(EXIT_DRAINED)  # nothing is here that could fail to stop

    def _fill(self) -> None:
        self.due_at = math.inf
        self._spent_told = False
        try:
            self.process = self._start(self.index)
        except OSError as error:
            self.code = 1
            self.failed_starts += 1
            self._again(f"could not be started: {error}", refused=False)
        else:
            logger.info("process %d is started: pid %d", self.index, self.process.pid)

    def _ended(self, process: SupervisedProcess) -> None:
        code = process.code or 0
        served_since = process.serves_since
        what = f"(pid {process.pid}) {describe_exit(code)}"
        if self._stopping:
            # One that the signal has killed before it served had nothing to drain.
            self._leave(what, 0 if served_since is None and code < 0 else code)
        elif process.spent is not None and code >= 0 and code != EXIT_FAILED:
            self.failed_starts = 0
            self._jobs_have_failed = self._jobs_have_failed or code == EXIT_JOBS_FAILED
            self._backoff.reset()
            self.due_at = monotonic()
            logger.info("process %d %s and is replaced", self.index, what)
        elif code in ENDED_AS_TOLD:
            self._leave(what, code)
        else:
            self.code = code
            if served_since is not None:
                self.failed_starts = 0
                if monotonic() - served_since >= STEADY_AFTER:
                    self._backoff.reset()
            elif code != EXIT_UNAVAILABLE:
                self.failed_starts += 1
            self._again(what, refused=process.refused)

    def _again(self, what: str, *, refused: bool) -> None:
        if self._hopeless(self, refused):
            self._leave(what, self.code)
            return
        pause = self._backoff.next()
        self.due_at = monotonic() + pause
        logger.error("process %d %s; the next one starts in %.1f s", self.index, what, pause)

    def _leave(self, what: str, code: int) -> None:
        self.left = True
        self.code = self._with_failures(code)
        level = logging.INFO if code == 0 else logging.ERROR
        then = "" if self._stopping else " and is not replaced"
        logger.log(level, "process %d %s%s", self.index, what, then)

    def _with_failures(self, code: int) -> int:
        """Return what *code* comes to when jobs have failed in the processes before."""
        return EXIT_JOBS_FAILED if code == EXIT_DRAINED and self._jobs_have_failed else code
