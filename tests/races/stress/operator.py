"""The calls of operators and of housekeeping."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import psycopg

from taskq_sync.db.statements import Statements

from .caller import CHANGING, PAUSED, QUEUES, Caller, Open
from .ledger import Answer, Cancel, Limit, Pause, Pruned, Redrive

_statements = Statements()


class Operator(Caller):
    """Cancels, pauses, limits, and lets time be over for leases, jobs and what has finished."""

    def _cancel(self, made: Open, job_id: int) -> None:
        [row] = made.ask(_statements.cancel_job, job_id=job_id, actor="stress", reason=None)
        made.note(Cancel, job_id=job_id, result=row.result, status=row.status)

    def cancel_job(self) -> None:
        job_id = self._ledger.pick_job(self.chance)
        if job_id is not None:
            try:
                with self.single() as made:
                    self._cancel(made, job_id)
            except psycopg.DatabaseError as error:
                self._forgive_pruned(error)

    def cancel_in_an_open_transaction(self) -> None:
        job_id = self._ledger.pick_job(self.chance)
        if job_id is not None:
            try:
                with self.transaction() as made:
                    self._cancel(made, job_id)
            except psycopg.DatabaseError as error:
                self._forgive_pruned(error)

    def _forgive_pruned(self, error: psycopg.DatabaseError) -> None:
        if error.sqlstate != "TQ001" or not self._ledger.pruned:
            raise error
        self._ledger.count("cancel_job: no such job")

    def _redrive(self, made: Open, job_id: int) -> None:
        [row] = made.ask(_statements.redrive, job_id=job_id, actor="stress", reason=None)
        made.note(Redrive, job_id=job_id, result=row.result, status=row.status)

    def redrive(self) -> None:
        self._redrive_in(self.single)

    def redrive_in_an_open_transaction(self) -> None:
        self._redrive_in(self.transaction)

    def _redrive_in(self, opened: Callable[[], AbstractContextManager[Open]]) -> None:
        job_id = self._ledger.pick_job(self.chance)
        if job_id is None:
            return
        try:
            with opened() as made:
                self._redrive(made, job_id)
        except psycopg.DatabaseError as error:
            if error.sqlstate != "TQ409":
                self._forgive_pruned(error)
            self._ledger.count("redrive: refused")

    def _purge(self, made: Open) -> None:
        queue = self.chance.choice(QUEUES)
        limit = self.chance.choice((1, 5))
        for row in made.ask(_statements.purge_queue, queue=queue, limit=limit, actor="stress", reason=None):
            made.note(Cancel, job_id=row.job_id, result=row.result, status=row.status)

    def purge_queue(self) -> None:
        with self.single() as made:
            self._purge(made)

    def purge_in_an_open_transaction(self) -> None:
        with self.transaction() as made:
            self._purge(made)

    def keep_rows_locked(self) -> None:
        """Look at held or running jobs at a prompt, and change nothing in the end."""
        table = self.chance.choice(("ready", "running"))
        with self._conn.transaction(force_rollback=True):
            look = Open(self._conn, self._ledger, single=False)
            look.ask(_LOOKS_AT[table], most=self.chance.randint(1, 5))
            self.linger()

    def run_leases_out(self) -> None:
        with self.single() as made:
            made.ask(_RUN_OUT, most=self.chance.randint(1, 10))

    def _take_back(self, made: Open) -> None:
        for row in made.ask(_statements.take_back, limit=self.chance.choice((1, 5, 1000))):
            made.note(
                Answer,
                job_id=row.job_id,
                attempt_id=row.attempt_id,
                verb="take_back",
                result=row.result,
                status=row.status,
            )

    def take_back(self) -> None:
        with self.single() as made:
            self._take_back(made)

    def take_back_in_an_open_transaction(self) -> None:
        with self.transaction() as made:
            self._take_back(made)

    def expire_ttl(self) -> None:
        with self.single() as made:
            [[jobs]] = made.ask(_statements.expire_ttl, limit=100)
        self._ledger.expired(jobs)

    def expire_in_an_open_transaction(self) -> None:
        """Always rolled back, so that held rows are locked by somebody who changes his mind."""
        with self._conn.transaction(force_rollback=True):
            Open(self._conn, self._ledger, single=False).ask(_statements.expire_ttl, limit=100)
            self.linger()

    def prune(self) -> None:
        """After the retention of some finished jobs was made to be over."""
        with self.single() as made:
            made.ask(_RETENTION_OVER, most=100)
        with self.single() as made:
            [[jobs]] = made.ask(_statements.prune, limit=1000)
            made.note(Pruned, jobs=jobs)

    def toggle_pause(self) -> None:
        """Pause a queue for a short while; one session at a time, so that the order is known."""
        queue = self.chance.choice(PAUSED)
        if not self._toggles.locks[queue].acquire(blocking=False):
            return
        try:
            for paused, statement in ((True, _statements.pause_queue), (False, _statements.resume_queue)):
                with self.transaction() as made:
                    [row] = made.ask(statement, queue=queue, actor=None, reason=None)
                    if row.result in ("paused", "resumed"):
                        made.note(Pause, queue=queue, paused=paused)
                self.linger()
        finally:
            self._toggles.locks[queue].release()

    def change_limit(self) -> None:
        key = self.chance.choice(CHANGING)
        if not self._toggles.locks[key].acquire(blocking=False):
            return
        try:
            with self.transaction() as made:
                limit = self.chance.choice((None, 0, 1, 2, 4))
                [row] = made.ask(
                    _statements.set_concurrency_limit, key=key, max_running=limit, actor=None, reason=None
                )
                made.note(Limit, key=key, max_running=row.max_running)
        finally:
            self._toggles.locks[key].release()


_LOOKS_AT = {
    "ready": """
        select id from taskq.ready where hold = 'key' order by random() limit %(most)s for update skip locked
    """,
    "running": """
        select id from taskq.running order by random() limit %(most)s for update skip locked
    """,
}

# By hand, not part of the contract: the time that a test does not wait for.
_RUN_OUT = """
update taskq.running set lease_expires_at = taskq.clock() - interval '1 s'
where id = any (array(select id from taskq.running order by random() limit %(most)s for update skip locked))
returning id
"""
# the oldest, so that many attempts can be asked for again, and a few of any age
_RETENTION_OVER = """
update taskq.finished set purge_at = taskq.clock()
where id = any (array(
  select id from taskq.finished where id in (
    (select id from taskq.finished order by finished_at desc offset 1000 limit %(most)s)
    union all
    (select id from taskq.finished order by random() limit 2))
  for update skip locked))
returning id
"""
