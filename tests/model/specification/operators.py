"""What people do to jobs, queues, limits and workers. *why* is the actor and the reason; each call is noted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from model.specification.state import Job, Key, Queue, Refused, Row, State


class Operators(State):
    """The functions of operators."""

    def cancel_job(self, job_id: int, **why: str) -> list[Row]:
        """A waiting job at once. A running one is asked to: the first time counts."""
        job = self._job(job_id)
        result = {"queued": "cancelled", "running": "requested"}.get(job.status, "already_ended")
        if result == "cancelled":
            self._end_waiting([job], "cancelled", why.get("reason"))
        elif result == "requested" and job.cancel_requested_at is None:
            job.set(cancel_requested_at=self.now, reason=why.get("reason"))
            self.attempts[job.current_attempt_id].reason = job.reason
        self._note("cancel_job", f"job {job_id}", why, result=result)
        return [{"job_id": job_id, "result": result, "status": job.status}]

    def purge_queue(self, queue: str, limit: int = 1000, **why: str) -> list[Row]:
        """Whoever waits is cancelled, first those that a claim would meet."""
        held = [job for job in self._jobs(queue=queue, status="queued") if job.hold]
        gone = [*self._waiting(queue), *sorted(held, key=self._was_left)][:limit]
        self._end_waiting(gone, "cancelled", why.get("reason"))
        self._note("purge_queue", f"queue {queue}", why, cancelled=len(gone))
        return [{"job_id": job.id, "result": "cancelled", "status": "cancelled"} for job in gone]

    def redrive(self, job_id: int, **why: str) -> list[Row]:
        """A job that was not done begins anew, with its attempts, its checkpoint and its options."""
        job = self._job(job_id)
        if job.status == "succeeded":
            raise Refused("TQ409")
        result = "already_live" if job.lives else "redriven" if self._take_key_back(job) else "key_taken"
        if result == "redriven":
            job.set(**Job.UNENDED, **Job.IDLE, status="queued", keyed=job.unique_key is not None)
            job.set(failure_count=0, expiry_streak=0, hold="order" if job.ordered else None)
            job.set(scheduled_at=self.now, expires_at=self.now + job.ttl if job.ttl else None)
            self._signal([job.concurrency_key] if job.ordered else [])
        self._note("redrive", f"job {job_id}", why, result=result)
        return [{"job_id": job_id, "result": result, "status": job.status}]

    def _take_key_back(self, job: Job) -> bool:
        """A job without a key has nothing to take."""
        key = self._key_of(job)
        if job.unique_key is None or (key is None and self._holder(job.queue, job.unique_key) is not None):
            return job.unique_key is None
        expires_at = None if key is None else key.expires_at
        self.keys[job.queue, job.unique_key] = Key(job.id, job.unique_scope == "waiting", expires_at)
        return True

    def pause_queue(self, queue: str, **why: str) -> list[Row]:
        return self._set_pause(queue, why, "pause_queue", self.now, ["already_paused", "paused"])

    def resume_queue(self, queue: str, **why: str) -> list[Row]:
        return self._set_pause(queue, why, "resume_queue", None, ["not_paused", "resumed"])

    def _set_pause(self, queue: str, why: Row, verb: str, at: Any, results: list[str]) -> list[Row]:
        changes = self._paused(queue) != (at is not None)
        if changes:
            self._edit(queue).paused_at = at
        self._note(verb, f"queue {queue}", why, result=results[changes])
        return [{"queue": queue, "result": results[changes]}]

    def set_queue(self, queue: str, reset: Iterable[str] = (), **given: Any) -> list[Row]:
        row, why = self._edit(queue), {name: given.pop(name, None) for name in ("actor", "reason")}
        row.policy = {name: value for name, value in row.policy.items() if name not in reset} | given
        self._note("set_queue", f"queue {queue}", why, version=row.version)
        return [{"queue": queue, "version": row.version}]

    def _edit(self, queue: str) -> Queue:
        row = self.queues.setdefault(queue, Queue())
        row.version += 1
        return row

    def set_concurrency_limit(self, key: str, max_running: int | None, **why: str) -> list[Row]:
        """A key that ends in `*` is a pattern. None is no limit of its own."""
        self.limits = {each: limit for each, limit in self.limits.items() if each != key}
        if max_running is not None:
            self.limits[key] = max_running
        held = [job.concurrency_key for job in self._jobs(hold="key")] if key.endswith("*") else []
        self._signal([key, *(each for each in held if each.startswith(key[:-1]))])
        self._note("set_concurrency_limit", f"key {key}", why, max_running=max_running)
        return [{"key": key, "max_running": self._limit(key)}]

    def set_strict_queues(self, strict: bool, **why: str) -> list[Row]:
        self.strict_queues = strict
        self._note("set_strict_queues", "schema", why, strict=strict)
        return [{"strict": strict}]

    def _note(self, verb: str, target: str, why: Row, **detail: Any) -> None:
        who = {"at": self.now, "actor": why.get("actor") or self.user, "session_role": self.user}
        what = {"verb": verb, "target": target, "reason": why.get("reason"), "detail": detail}
        self.audit.append(who | what)
