"""The call that renews leases: one for everything that is held, over a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskq_sync.db.jobs import Jobs
from taskq_sync.errors import TaskQError
from taskq_sync.model import Beat
from taskq_sync.worker.lease import Leased
from taskq_sync.worker.link import CALL_TIMEOUT, Link

#: A beat call may take as long as the shortest time between two beats, but at least so many seconds.
SHORTEST_TIMEOUT = 0.5


def timeout_of(held: Sequence[Leased]) -> float:
    """Return the seconds that a call for *held* may take."""
    shortest = min((each.terms.beat for each in held), default=CALL_TIMEOUT)
    return max(SHORTEST_TIMEOUT, min(shortest, CALL_TIMEOUT))


class BeatCall:
    """Sends beats for one worker. Belongs to one thread, as its *link* does."""

    def __init__(self, link: Link, jobs: Jobs, worker_id: str) -> None:
        self._link = link
        self._jobs = jobs
        self._worker_id = worker_id

    def connect(self) -> None:
        """Have the connection before handlers can use up what the server has to give. Raises as `send` does."""
        self._link.call(lambda session: None)

    def send(self, held: Sequence[Leased], checkpoints: Mapping[int, str]) -> Sequence[Beat]:
        """Renew the leases of *held*; *checkpoints*, by fence, go with it. Return one answer for each, in order.

        Blocks up to `timeout_of(held)`. Raises what the link raises; `failed` says what then.
        """
        pairs = [(each.job_id, each.fence) for each in held]
        progress = {each.job_id: checkpoints[each.fence] for each in held if each.fence in checkpoints}
        return self._link.call(
            lambda session: self._jobs.heartbeat(session, self._worker_id, pairs, progress=progress),
            timeout=timeout_of(held),
        )

    def failed(self, error: TaskQError) -> float:
        """Count a failed call and return the seconds to wait before the next one; see `Link.failed`."""
        return self._link.failed(error)

    def close(self) -> None:
        """Close the connection; the next call connects anew."""
        self._link.close()
