"""One session of a stress run: any call of the contract at any time."""

from __future__ import annotations

from collections.abc import Callable

from .operator import Operator
from .worker import Worker


class Session(Worker, Operator):
    """Calls the contract at random until the run stops or it has made enough calls; see `run`."""

    def run(self, calls: int) -> None:
        """Call one verb after the other; raises what the database raises, and the stress run ends."""
        verbs, weights = zip(*self._weights().items(), strict=True)
        for _ in range(calls):
            if self._stop.is_set():
                return
            verb = self.chance.choices(verbs, weights)[0]
            if verb in self._producing and self._ledger.live >= self._mix.live:
                verb = self.claim
            self.verb = verb.__name__
            verb()

    @property
    def _producing(self) -> tuple[Callable[[], None], ...]:
        return self.enqueue, self.enqueue_many, self.enqueue_in_an_open_transaction

    def _weights(self) -> dict[Callable[[], None], int]:
        return {
            self.enqueue: 8,
            self.enqueue_many: 6,
            self.enqueue_in_an_open_transaction: 4,
            self.claim: 22,
            self.claim_in_an_open_transaction: 5,
            self.heartbeat: 8,
            self.attempt_state: 2,
            self.settle_one: 14,
            self.settle_batch: 12,
            self.settle_in_an_open_transaction: 3,
            self.handle_in_a_transaction: 10,
            self.follow_up_in_a_transaction: 3,
            self.cancel_job: 6,
            self.cancel_in_an_open_transaction: 4,
            self.redrive: 5,
            self.redrive_in_an_open_transaction: 3,
            self.purge_queue: 1,
            self.purge_in_an_open_transaction: 1,
            self.keep_rows_locked: 4,
            self.run_leases_out: 5,
            self.take_back: 6,
            self.take_back_in_an_open_transaction: 1,
            self.expire_ttl: 3,
            self.expire_in_an_open_transaction: 2,
            self.prune: 2,
            self.toggle_pause: 3,
            self.change_limit: 3,
            self.poll_hint: 2,
        }
