"""The supervisor: its places, what stops it, and the exit code at its end."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Iterable, Sequence

from taskq_sync.clock import monotonic
from taskq_sync.worker.config import new_worker_id
from taskq_sync.worker.shutdown import EXIT_DRAINED, EXIT_FAILED, EXIT_STUCK
from taskq_sync.worker.supervisor.place import ENDED_AS_TOLD, Place
from taskq_sync.worker.supervisor.process import SupervisedProcess
from taskq_sync.worker.supervisor.wakeups import Wakeups
from taskq_sync.worker.worker import EXIT_JOBS_FAILED, EXIT_UNAVAILABLE

logger = logging.getLogger("taskq_sync.supervisor")

EXIT_USAGE = 2

#: So many processes in a row that end before they serve are enough, in all places.
MAX_FAILED_STARTS = 3

#: The longest sleep, in seconds. What it waits for wakes it; this is for what does not.
_LOOK_EVERY = 1.0

#: From bad to worse. An exit code that is not among them, such as that of a program which ends itself, is between.
_SEVERITY = (EXIT_DRAINED, EXIT_JOBS_FAILED, EXIT_UNAVAILABLE, EXIT_USAGE, EXIT_STUCK)


def worst(codes: Iterable[int]) -> int:
    """Return the worst of some exit codes; a death by a signal counts as an internal failure."""

    def severity(code: int) -> int:
        if code == EXIT_FAILED:
            return len(_SEVERITY) + 1
        return _SEVERITY.index(code) if code in _SEVERITY else len(_SEVERITY)

    return max((EXIT_FAILED if code < 0 else code for code in codes), key=severity, default=EXIT_DRAINED)


class Supervisor:
    """Keeps so many processes running, in the main thread of a process that does nothing else.

    At first there is one process. The others start once it serves, so that what is wrong with the program or the
    database is said once, and ends the supervisor.
    """

    def __init__(self, arguments: Sequence[str], *, processes: int, replaces: bool = True) -> None:
        """Prepare *processes* times `taskq-sync worker` with *arguments*; nothing starts.

        Without *replaces* the processes are to end by themselves, and a dead one stays dead.
        """
        self.supervisor_id = new_worker_id()
        self._arguments = tuple(arguments)
        self._replaces = replaces
        self._places = [Place(index, self._start, self._is_hopeless) for index in range(processes)]
        self._wakeups = Wakeups()
        self._proven = False
        self._asked = False  # by a signal, to stop
        self._is_first_process = os.getpid() == 1

    def run(self) -> int:
        """Run until all processes have ended, and return the worst of their exit codes.

        SIGTERM and SIGINT stop all softly, and a second one does not wait. It ends by itself when the first process
        cannot start, when none starts any more, and when all have ended that were to.
        """
        logger.info("supervisor %s runs %d processes", self.supervisor_id, len(self._places))
        with self._wakeups:
            self._places[0].due_at = monotonic()
            try:
                self._supervise()
            except BaseException:
                self._stop()
                self._see_to_their_end()
                raise
        code = worst(place.code for place in self._places)
        logger.log(
            logging.INFO if code == 0 else logging.ERROR,
            "supervisor %s ends with exit code %d",
            self.supervisor_id,
            code,
        )
        return code

    def _start(self, index: int) -> SupervisedProcess:
        return SupervisedProcess(self._arguments, supervisor=self.supervisor_id, place=index)

    def _supervise(self) -> None:
        while not all(place.left for place in self._places):
            self._obey()
            for place in self._places:
                place.look()
            self._start_the_others()
            self._give_up()
            if not self._wakeups.stop_wanted:
                self._wait()

    def _obey(self) -> None:
        while (name := self._wakeups.take_stop()) is not None:
            running = sum(place.process is not None for place in self._places)
            if self._asked:
                logger.warning("second %s: %d processes are told to wait no longer", name, running)
            else:
                logger.info("%s: %d processes are told to stop", name, running)
            self._asked = True
            self._stop()

    def _stop(self) -> None:
        for place in self._places:
            place.stop()

    def _start_the_others(self) -> None:
        """Once the first process has served, or has ended as it was to; if it never will, give up."""
        first, *others = self._places
        if self._proven or not (first.has_served or first.left):
            return
        self._proven = True
        for place in others:
            if first.has_served or first.code in ENDED_AS_TOLD:
                place.due_at = monotonic()
            else:
                place.stop()

    def _give_up(self) -> None:
        """Where the dead are replaced, a place is left with a failure only when there is no hope for any."""
        idle = all(place.process is None for place in self._places)
        failed = any(place.left and place.code not in ENDED_AS_TOLD for place in self._places)
        if self._replaces and idle and failed:
            self._stop()

    def _is_hopeless(self, place: Place, refused: bool) -> bool:
        """Whether nothing comes of another start in *place*, whose process has just died."""
        if not self._replaces:
            return True
        if not self._proven and not place.has_served:
            return (
                refused
                or place.code in (EXIT_USAGE, EXIT_UNAVAILABLE)
                or place.failed_starts >= MAX_FAILED_STARTS
            )
        return all(
            each.process is None and each.failed_starts >= MAX_FAILED_STARTS
            for each in self._places
            if not each.left
        )

    def _see_to_their_end(self) -> None:
        """Wait for the processes as at any stop, after a defect of this one."""
        while not all(place.left for place in self._places):
            self._obey()
            for place in self._places:
                place.look()
            self._wait()

    def _wait(self) -> None:
        processes = [place.process for place in self._places if place.process is not None]
        if self._is_first_process:
            self._reap(processes)
        if all(place.left for place in self._places):
            return
        due_at = min((place.due_at for place in self._places if not place.left), default=math.inf)
        self._wakeups.wait(
            min(due_at - monotonic(), _LOOK_EVERY),
            [process.channel for process in processes if process.channel is not None],
        )

    def _reap(self, processes: Sequence[SupervisedProcess]) -> None:
        """As the first process of a container: let those end whose own parents are gone."""
        own = {process.pid for process in processes}
        with contextlib.suppress(ChildProcessError):
            while True:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None or ended.si_pid in own:  # ours is looked at next, and wakes us
                    return
                os.waitpid(ended.si_pid, os.WNOHANG)
