"""The calls of workers: claims, beats, settles in every form, and handlers with a transaction of their own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from taskq_sync.db.statements import Statements

from .caller import QUEUES, Open
from .ledger import Answer, Attempt, Look, Worked
from .producer import Producer

#: What an attempt may be ended by.
VERBS = ("complete", "fail", "snooze", "release", "cancel")

_statements = Statements()
_batches = itertools.count(1)


class Worker(Producer):
    """Runs jobs, or seems to: what counts is what it tells the database about them."""

    def _claim(self, made: Open) -> None:
        queues = self.chance.sample(QUEUES, self.chance.randint(1, len(QUEUES)))
        limit = self.chance.choice((1, 1, 2, 5, 20))
        lease = self.chance.choice((None, None, None, "0.1 s"))
        rows = made.ask(_statements.claim, queues=queues, worker_id=f"w{limit}", limit=limit, lease=lease)
        assert len(rows) <= limit
        batch = next(_batches)
        for row in rows:
            assert row.queue in queues
            assert row.scheduled_at <= row.lease_expires_at - row.lease, "claimed before it was due"
            made.note(
                Attempt,
                batch=batch,
                job_id=row.job_id,
                attempt_id=row.attempt_id,
                queue=row.queue,
                key=row.concurrency_key,
                attempt_count=row.attempt_count,
                failure_count=row.failure_count,
                max_attempts=row.max_attempts,
                expiry_streak=row.expiry_streak,
            )

    def claim(self) -> None:
        with self.single() as made:
            self._claim(made)

    def claim_in_an_open_transaction(self) -> None:
        with self.transaction() as made:
            self._claim(made)

    def poll_hint(self) -> None:
        with self.single() as made:
            rows = made.ask(_statements.poll_hint, queues=list(QUEUES))
            assert [row.queue for row in rows] == list(QUEUES)

    # beats

    def heartbeat(self) -> None:
        attempts = self._ledger.pick(self.chance, 20, keep=True) + self._ledger.pick_stale(self.chance, 3)
        progress = {str(each.job_id): {"at": each.attempt_id} for each in attempts[:2]}
        with self.single() as made:
            rows = made.ask(
                _statements.heartbeat,
                worker_id="w",
                job_ids=[each.job_id for each in attempts],
                attempt_ids=[each.attempt_id for each in attempts],
                lease=self.chance.choice((None, "0.1 s")),
                progress=json.dumps(progress),
            )
            assert [row.attempt_id for row in rows] == [each.attempt_id for each in attempts]
            for row in rows:
                made.note(
                    Look,
                    function="heartbeat",
                    job_id=row.job_id,
                    attempt_id=row.attempt_id,
                    state=row.state,
                    asked_to_cancel=row.cancel_requested,
                )

    def attempt_state(self) -> None:
        for attempt in self._pick(1):
            with self.single() as made:
                [row] = made.ask(
                    _statements.attempt_state, job_id=attempt.job_id, attempt_id=attempt.attempt_id
                )
                made.note(
                    Look,
                    function="attempt_state",
                    job_id=attempt.job_id,
                    attempt_id=attempt.attempt_id,
                    state=row.state,
                    status=row.status,
                )

    # settle

    def _pick(self, most: int) -> list[Attempt]:
        """Return attempts: mostly this session's for the moment, some that others hold too, some that have ended."""
        kind = self.chance.random()
        if kind < 0.1:
            return self._ledger.pick_stale(self.chance, min(most, 3))
        return self._ledger.pick(self.chance, most, keep=kind < 0.3)

    def _element(self, attempt: Attempt) -> dict[str, Any]:
        """Return an element of a settle document; now and then one that must be rejected."""
        chance = self.chance
        verb = chance.choices(VERBS, (10, 5, 2, 2, 1))[0]
        element: dict[str, Any] = {"job_id": attempt.job_id, "attempt_id": attempt.attempt_id, "verb": verb}
        if verb == "complete":
            element["result"] = {"done": attempt.attempt_id}
        elif verb == "fail":
            element.update(error="boom", retryable=chance.random() < 0.9)
            if chance.random() < 0.5:
                element["retry_after"] = chance.choice((0, 0.1))
        elif verb == "snooze":
            element["delay"] = chance.choice((0.1, 0.2)) if chance.random() < 0.9 else 0
        elif verb == "release":
            element["delay"] = chance.choice((0, 0.1))
            element["cause"] = chance.choice(("not_started", "worker_shutdown"))
        return element

    def _settle(self, made: Open, elements: Sequence[dict[str, Any]]) -> None:
        rows = made.ask(_statements.settle, worker_id="w", settlements=json.dumps(elements))
        self._note_answers(made, elements, rows)

    def _note_answers(self, made: Open, elements: Sequence[dict[str, Any]], rows: Sequence[Any]) -> None:
        assert [row.attempt_id for row in rows] == [each["attempt_id"] for each in elements]
        for element, row in zip(elements, rows, strict=True):
            made.note(
                Answer,
                job_id=row.job_id,
                attempt_id=row.attempt_id,
                verb=element["verb"],
                result=row.result,
                status=row.status,
                retryable=element.get("retryable", True),
                leaves_no_row=element.get("cause") == "not_started" and row.status == "queued",
                spoilt=element["verb"] == "snooze" and element["delay"] == 0,
            )

    def settle_one(self) -> None:
        """By the single form of the verb."""
        for attempt in self._pick(1):
            element = self._element(attempt)
            with self.single() as made:
                rows = made.ask(
                    _SINGLE_FORMS[element["verb"]], **{**_NO_FIELDS, **element, **_as_text(element)}
                )
                self._note_answers(made, [element], rows)

    def settle_batch(self) -> None:
        """Some attempts twice, some stale beside the valid attempt of the same job."""
        attempts = self._pick(15) + self._ledger.pick_stale(self.chance, 2)
        attempts += self.chance.sample(attempts, min(2, len(attempts)))
        self.chance.shuffle(attempts)
        if attempts:
            with self.single() as made:
                self._settle(made, [self._element(each) for each in attempts])

    def settle_in_an_open_transaction(self) -> None:
        attempts = self._pick(5)
        if attempts:
            with self.transaction() as made:
                self._settle(made, [self._element(each) for each in attempts])

    def handle_in_a_transaction(self) -> None:
        """A handler that writes rows of its own and completes as its last statement."""
        for attempt in self._pick(1):
            element = {"job_id": attempt.job_id, "attempt_id": attempt.attempt_id, "verb": "complete"}
            try:
                with self.transaction() as made:
                    made.ask(_WORK, attempt_id=attempt.attempt_id)
                    if self.chance.random() < 0.3:
                        self._enqueue(made, waiting=False)
                    self.linger()
                    rows = made.ask(_SINGLE_FORMS["complete"], **_NO_FIELDS, **element)
                    if rows[0].result != "ok":
                        raise _FenceLost
                    self._note_answers(made, [element], rows)
                    made.note(Worked, attempt_id=attempt.attempt_id)
            except _FenceLost:
                self._ledger.undo(made.records)
                self._ledger.count("handlers that had lost their fence")

    def follow_up_in_a_transaction(self) -> None:
        """Complete, then enqueue a successor with the same unique key."""
        for attempt in self._pick(1):
            element = {"job_id": attempt.job_id, "attempt_id": attempt.attempt_id, "verb": "complete"}
            key = self._unique_key_of(attempt.job_id)
            with self.transaction() as made:
                rows = made.ask(_SINGLE_FORMS["complete"], **_NO_FIELDS, **element)
                self._note_answers(made, [element], rows)
                if rows[0].result == "ok":
                    self._enqueue(made, queue=attempt.queue, **{**_NOT_UNIQUE, "unique_key": key})

    def _unique_key_of(self, job_id: int) -> str | None:
        [(key,)] = self._conn.execute(
            "select max(unique_key) from taskq.jobs where id = %s", [job_id]
        ).fetchall()
        return None if key is None else str(key)


class _FenceLost(Exception):
    pass


def _as_text(element: dict[str, Any]) -> dict[str, str]:
    """Return the durations and documents of an element as the single forms take them."""
    texts: dict[str, str] = {
        name: f"{element[name]:.6f} s" for name in ("delay", "retry_after") if name in element
    }
    if "result" in element:
        texts["result"] = json.dumps(element["result"])
    return texts


_NO_FIELDS: dict[str, Any] = {
    "result": None,
    "error": None,
    "retryable": True,
    "retry_after": None,
    "delay": None,
    "cause": None,
    "reason": None,
}

_COLUMNS = "select job_id, attempt_id, result, status, scheduled_at, reason"
_SINGLE_FORMS = {
    "complete": f"{_COLUMNS} from taskq.complete(%(job_id)s, %(attempt_id)s, %(result)s::jsonb)",
    "fail": f"""
        {_COLUMNS} from taskq.fail(
          %(job_id)s, %(attempt_id)s, %(error)s, %(retryable)s, %(retry_after)s::interval)
    """,
    "snooze": f"{_COLUMNS} from taskq.snooze(%(job_id)s, %(attempt_id)s, %(delay)s::interval, %(reason)s)",
    "release": f"{_COLUMNS} from taskq.release(%(job_id)s, %(attempt_id)s, %(delay)s::interval, %(cause)s)",
    "cancel": f"{_COLUMNS} from taskq.cancel_attempt(%(job_id)s, %(attempt_id)s, %(reason)s)",
}

_NOT_UNIQUE = dict.fromkeys(("unique_key", "unique_mode", "unique_scope", "unique_for"))

_WORK = "insert into stress.work (attempt_id) values (%(attempt_id)s) returning attempt_id"
