"""How jobs come in."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from model.specification.state import POLICY, REQUEST, Difference, Job, Key, Refused, Row, State


class Producers(State):
    """The functions of producers."""

    def enqueue(self, queue: str, task: str, skip_wake: bool = False, **job: Any) -> list[Row]:
        return self.enqueue_many(queue, [{"task": task, **job}])

    def enqueue_many(self, queue: str, jobs: list[Row], skip_wake: bool = False) -> list[Row]:
        """All or none. The first that asks for a key gets it, if nobody has it; the others meet the holder."""
        if self.strict_queues and queue not in self.queues:
            raise Refused("TQ001")
        keys = [job.get("unique_key") for job in jobs]
        free = [n for n, key in enumerate(keys) if self._holder(queue, key) is None]
        new = [n for n in free if keys[n] is None or keys.index(keys[n]) == n]
        waiting = len(self._jobs(queue=queue, status="queued"))
        if new and waiting + len(new) > self._queue(queue).policy.get("max_depth", math.inf):
            raise Refused("TQ429")

        made = dict(zip(new, self._new_job_ids(len(new)), strict=True))
        for n, job_id in made.items():
            self._store(job_id, queue, jobs[n])
        ids = [made.get(n) or self._holder(queue, key) for n, key in enumerate(keys)]
        statuses = ["created" if n in made else self._met(ids[n], job) for n, job in enumerate(jobs)]
        # of several requests for one job the last counts
        rewrites = {ids[n]: job for n, job in enumerate(jobs) if statuses[n] == "replaced"}
        for job_id, job in rewrites.items():
            self._rewrite(self.jobs[job_id], job)
        self._signal(job["concurrency_key"] for job in jobs if job.get("ordered"))
        return [{"ordinal": n, "status": statuses[n], "job_id": ids[n]} for n in range(len(jobs))]

    def _met(self, job_id: int, request: Row) -> str:
        """A holder is left alone, or replaced while it waits; one that runs is `running`, one that has ended is not."""
        replaces = request.get("unique_mode", "keep") != "keep"
        answers = {"queued": "replaced", "running": "running"} if replaces else {}
        return answers.get(self.jobs[job_id].status, "existed")

    def _new_job_ids(self, count: int) -> list[int]:
        ids = sorted(self.seen.keys() - self.jobs.keys())
        if len(ids) != count or min(ids, default=self.last_job_id + 1) <= self.last_job_id:
            raise Difference(f"{count} jobs should be new, with ids above {self.last_job_id}, not {ids}")
        self.last_job_id = max(ids, default=self.last_job_id)
        return ids

    def _store(self, job_id: int, queue: str, request: Row) -> None:
        """An ordered job waits until a claim has looked whether it is the next."""
        unique_key, ordered = request.get("unique_key"), request.get("ordered", False)
        job = Job(**Job.NEW, status="queued", id=job_id, queue=queue, created_at=self.now)
        job.set(enqueued_by=self.user, hold="order" if ordered else None)
        job.set(unique_key=unique_key, keyed=unique_key is not None, ordered=ordered)
        self.jobs[job_id] = job
        self._stamp(job, request, self._asked_at(request))
        if job.keyed:
            until = self.now + request["unique_for"] if "unique_for" in request else None
            self.keys[queue, unique_key] = Key(job_id, job.unique_scope == "waiting", until)

    def _rewrite(self, job: Job, request: Row) -> None:
        """A new request and a new budget for a job that keeps its id, its attempts, and its place in an order."""
        was_free, old_key, old_time = job.hold is None, job.concurrency_key, job.scheduled_at
        keeps_time = request["unique_mode"] == "replace_keep_schedule"
        self._stamp(job, request, old_time if keeps_time else self._asked_at(request))
        job.set(failure_count=0, progress=None, hold="order" if job.hold == "order" else None)
        if job.ordered:
            job.concurrency_key = old_key
        key = self.keys[job.queue, job.unique_key]
        key.waiting = job.unique_scope == "waiting"
        if "unique_for" in request:
            key.expires_at = max(self.now + request["unique_for"], key.expires_at or self.now)
        if was_free and (old_key != job.concurrency_key or job.scheduled_at > self.now):
            self._signal([old_key])

    def _stamp(self, job: Job, request: Row, scheduled_at: datetime) -> None:
        """What the request does not say the queue says, as it is now: a later edit changes no job."""
        policy = self._queue(job.queue).policy
        for name, default in (REQUEST | POLICY).items():
            job.set(**{name: request.get(name, policy.get(name, default))})
        expires_at = scheduled_at + job.ttl if job.ttl else None
        job.set(task=request["task"], scheduled_at=scheduled_at, expires_at=expires_at)

    def _asked_at(self, request: Row) -> datetime:
        return request.get("scheduled_at", self.now + request.get("delay", timedelta(0)))
