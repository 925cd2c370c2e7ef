"""How attempts go on and end."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partialmethod
from typing import Any

from model.specification.state import SECOND, STATUS, Attempt, Difference, Job, Row, State

JITTER = 0.15
PROGRESS_CAP = 2048


class Settlements(State):
    """Beats, and the five verbs; taking back is a sixth."""

    def heartbeat(self, worker_id: str, job_ids: list[int], attempt_ids: list[int], **said: Any) -> list[Row]:
        """The fence decides, not the time: a lease that ran out is revived, if nobody took the job back."""
        sent = [said.get("progress", {}).get(str(job_id)) for job_id in job_ids]
        return [self._beat(*each, said.get("lease")) for each in zip(job_ids, attempt_ids, sent, strict=True)]

    def _beat(self, job_id: int, fence: int, sent: Any, lease: timedelta | None) -> Row:
        job, fits = self._holding(job_id, fence), _fits(sent)
        row = {"job_id": job_id, "attempt_id": fence, "progress_stored": sent and fits and job is not None}
        if job is None:
            return {**row, "state": "lost", "cancel_requested": False, "lease_expires_at": None}
        job.lease_expires_at = self.now + (lease or job.claimed_lease)
        job.progress = sent if sent and fits else job.progress
        asked = job.cancel_requested_at is not None
        return {**row, "state": "ok", "cancel_requested": asked, "lease_expires_at": job.lease_expires_at}

    def settle(self, worker_id: str | None, settlements: list[Row]) -> list[Row]:
        return [self._settle(worker_id, **element) for element in settlements]

    def complete_many(self, worker_id: str | None, job_ids: list[int], attempt_ids: list[int]) -> list[Row]:
        return [self._settle(worker_id, *each, "complete") for each in zip(job_ids, attempt_ids, strict=True)]

    def _settle_one(self, verb: str, **element: Any) -> list[Row]:
        return [self._settle(None, verb=verb, **element)]

    complete, fail = partialmethod(_settle_one, "complete"), partialmethod(_settle_one, "fail")
    snooze, release = partialmethod(_settle_one, "snooze"), partialmethod(_settle_one, "release")
    cancel_attempt = partialmethod(_settle_one, "cancel")

    def _settle(self, worker_id: str | None, job_id: int, attempt_id: int, verb: str, **said: Any) -> Row:
        """An attempt that was settled stays so for ever; `lost` is only for one that never was."""
        row = {"job_id": job_id, "attempt_id": attempt_id, "status": None, "scheduled_at": None}
        if (verb == "snooze" and said["delay"] < SECOND / 10) or not _fits(said.get("progress")):
            return {**row, "result": "rejected"}
        job, past, row["reason"] = self._holding(job_id, attempt_id), self._past(job_id, attempt_id), None
        if job is not None:
            self._land(job, worker_id or job.worker_id, verb, said)
            self._signal([job.concurrency_key])
            answers = {"queued": "retry_scheduled", "failed": "dead"} if verb == "fail" else {}
            row |= {"result": answers.get(job.status, "ok"), "status": job.status}
            return {**row, "scheduled_at": job.scheduled_at if job.status == "queued" else None}
        if past is None:
            return {**row, "result": "lost"}
        result = "already_settled" if past.verb == verb else "settle_conflict"
        return {**row, "result": result, "status": past.status, "scheduled_at": past.scheduled_at}

    def attempt_state(self, job_id: int, attempt_id: int) -> list[Row]:
        past = self._past(job_id, attempt_id)
        state = "lost" if past is None else "settled" if past.verb else "running"
        return [{"state": state, "status": past and past.status}]

    def _holding(self, job_id: int, fence: int) -> Job | None:
        """The job, if this attempt has it now."""
        return next(iter(self._jobs(id=job_id, current_attempt_id=fence)), None)

    def _past(self, job_id: int, fence: int) -> Attempt | None:
        attempt = self.attempts.get(fence)
        known = attempt is not None and attempt.job_id == job_id and attempt.verb != "take_back"
        return attempt if known else None

    def _land(self, job: Job, worker_id: str, verb: str, said: Row) -> None:
        """End the attempt that has the job: it goes back to its queue, or to its end."""
        attempt, outcome = self.attempts[job.current_attempt_id], self._outcome(job, verb, **said)
        unstarted = verb == "release" and said.get("cause") == "not_started"
        job.failure_count += verb in ("fail", "take_back") and STATUS[outcome] != "cancelled"
        job.snooze_count += verb == "snooze" and outcome is None
        job.progress = said.get("progress", job.progress)
        if not unstarted:  # of one that was not started nothing was learnt
            job.expiry_streak = job.expiry_streak + 1 if verb == "take_back" else 0
        reason, error = said.get("reason", said.get("cause")), said.get("error")
        reason = job.reason or reason if STATUS[outcome] == "cancelled" else reason  # the operator's
        if outcome is None:
            self._requeue(job, verb, said)
            attempt.scheduled_at = job.scheduled_at
        else:
            self._end(job, outcome, reason, worker_id=worker_id, claimed_at=attempt.claimed_at,
                      result=said.get("result"), error=error)  # fmt: skip
        vars(attempt).update(worker_id=worker_id, verb=verb, ended_at=self.now, status=job.status)
        vars(attempt).update(outcome=outcome, error=error, reason=reason)
        if unstarted and outcome is None:
            del self.attempts[attempt.attempt_id]

    def _outcome(self, job: Job, verb: str, retryable: bool = True, **said: Any) -> str | None:
        """Why an attempt that ends in this way ends its job: the first that holds. None: the job goes on."""
        cancel_asked, burns = job.cancel_requested_at is not None, verb in ("fail", "take_back")
        reasons = {
            "success": verb == "complete",
            "cancelled_after_expiry": cancel_asked and verb == "take_back",
            "cancelled": cancel_asked or verb == "cancel",
            "poison": verb == "take_back" and job.expiry_streak == 2,
            "non_retryable": verb == "fail" and not retryable,
            "retry_exhausted": burns and job.failure_count + 1 >= job.max_attempts,
        }
        return next((outcome for outcome, holds in reasons.items() if holds), None)

    def _requeue(self, job: Job, verb: str, said: Row) -> None:
        """It is to run later. A key that its start had set free is its own again, unless somebody has it by now."""
        delay, spread = said.get("retry_after" if verb == "fail" else "delay"), 0.0
        failures = job.failure_count if verb == "fail" else job.expiry_streak - 1
        if (verb == "fail" and delay is None) or (verb == "take_back" and failures > 0):
            backoff = job.backoff.total_seconds() * 2 ** min(failures - 1, 60)
            delay, spread = min(backoff, job.backoff_max.total_seconds()) * SECOND, JITTER
        least, most = (self.now + (delay or 0 * SECOND) * factor for factor in (1 - spread, 1 + spread))
        job.set(**Job.IDLE, status="queued", scheduled_at=self.seen[job.id]["scheduled_at"])
        if not least <= job.scheduled_at <= most:
            raise Difference(f"{job} should run again between {least} and {most}")
        key = self._key_of(job)
        job.keyed = key is not None
        if key is not None:
            key.free = False


def _fits(progress: Any) -> bool:
    return len(json.dumps(progress)) <= PROGRESS_CAP
