"""The connection of one part of the worker, which is made anew when it breaks.

    answer = link.call(lambda session: jobs.claim(session, ...))

Each part has its own, so no handler and no other part can take the connection away from it. A part whose
calls fail makes the worker `degraded`, and its next success ends that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from taskq_sync.backoff import Backoff
from taskq_sync.clock import Deadline, monotonic
from taskq_sync.db.session import Session
from taskq_sync.errors import DatabaseUnavailable, TaskQError
from taskq_sync.worker.lifecycle import Lifecycle

T = TypeVar("T")

#: Seconds that one call may take, connecting included, unless the part says otherwise.
CALL_TIMEOUT = 5.0

#: The pause after the first failure and the longest one, in seconds.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0

#: A session that was not used for so many seconds is looked at first: the server may have ended it meanwhile,
#: which is no failure of the call that would find out.
LOOK_AFTER = 0.1

#: An error that is none of the link (a function is missing, a right was revoked) is retried for so many
#: seconds, because a deploy may be under way; then the part gives up and the worker ends.
PATIENCE = 60.0


class Link:
    """A session that one thread uses. Not locked.

    `connected_at` is the monotonic instant of the latest of so many `connections`.
    """

    def __init__(
        self,
        part: str,
        connect: Callable[[float], Session],
        lifecycle: Lifecycle | None,
        *,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        """Connect with *connect*, which takes a timeout.

        Failures are known under the name *part* to the *lifecycle*, unless that is None.
        """
        self._part = part
        self._connect = connect
        self._lifecycle = lifecycle
        self._timeout = timeout
        self._session: Session | None = None
        self._backoff = Backoff(base=FIRST_PAUSE, cap=LONGEST_PAUSE)
        self._failing_since = 0.0
        self._used_at = 0.0
        self.connected_at = 0.0
        self.connections = 0

    @property
    def standing(self) -> bool:
        """Whether the connection still stands, so that a failure was one of the statement only."""
        return self._session is not None and not self._session.closed

    def call(self, work: Callable[[Session], T], *, timeout: float | None = None) -> T:
        """Run *work* with the session, connected anew if need be, and return its result.

        Blocks up to *timeout* seconds (the link's own if None) and the grace in which a cancelled statement
        answers. Raises what the session raises; `failed` says what then.
        """
        deadline = Deadline.after(self._timeout if timeout is None else timeout)
        session = self._usable()
        if session is None:
            session = self._session = self._connect(deadline.seconds)
            self.connected_at = monotonic()
            self.connections += 1
        try:
            with session.within(deadline):
                result = work(session)
        except TaskQError:
            raise
        except BaseException:
            self.close()  # nobody knows what is still on its way over the wire
            raise
        self._used_at = monotonic()
        if self._backoff.failures:
            self._backoff.reset()
        if self._lifecycle is not None:
            self._lifecycle.recover(self._part)
        return result

    def failed(self, error: TaskQError) -> float:
        """Count a failed call and return the seconds to wait before the next one.

        The worker is degraded until a call succeeds. Raises *error* when no waiting will mend it: it is none
        of the link, and has lasted for `PATIENCE`.
        """
        if not self._backoff.failures:
            self._failing_since = monotonic()
        if not isinstance(error, DatabaseUnavailable) and monotonic() >= self._failing_since + PATIENCE:
            raise error
        if self._lifecycle is not None:
            self._lifecycle.ail(self._part, str(error))
        return self._backoff.next()

    def _usable(self) -> Session | None:
        """Return the session if the link seems to stand."""
        session = self._session
        if session is not None and monotonic() >= self._used_at + LOOK_AFTER and not session.is_alive():
            session.close()
        return None if session is None or session.closed else session

    def close(self) -> None:
        """Close the connection; the next call connects anew."""
        if self._session is not None:
            self._session.close()
