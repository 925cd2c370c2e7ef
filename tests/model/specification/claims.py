"""How jobs are started."""

from __future__ import annotations

from datetime import timedelta

from model.specification.state import Attempt, Difference, Job, Row, State

#: So often a claim looks on behind jobs that it may not start.
LOOKS = 3


class Claims(State):
    """The claim: candidates, then those for whom their key has room, then their start."""

    def claim(self, queues: list[str], worker_id: str, limit: int = 1, **said: timedelta) -> list[Row]:
        """In order of the queues, then of the jobs."""
        self._bring_back()
        started = self._admitted(self._candidates(queues, limit))
        fences = [self.seen[job.id]["current_attempt_id"] or 0 for job in started]
        if min(fences, default=self.last_fence + 1) <= self.last_fence or len({*fences}) < len(fences):
            raise Difference(f"{started} should run under new fences, above {self.last_fence}, not {fences}")
        self.last_fence = max(fences, default=self.last_fence)
        return [self._start(*each, worker_id, **said) for each in zip(started, fences, strict=True)]

    def _bring_back(self) -> None:
        """Of a signalled key: its next in order, and in each queue its best held ones, as many as there is room.

        Where the time of the best one is over, all of those go aside for good.
        """
        for key in self.signals:
            ordered = self._jobs(ordered=True, concurrency_key=key)
            if not any(job.lives and job.hold != "order" for job in ordered):
                self._put(self._next_in_order(key), None)
            held = self._jobs(hold="key", concurrency_key=key)
            for queue in {job.queue for job in held if self._room(key) > 0}:
                there = [job for job in held if job.queue == queue]
                over = [job for job in there if self._too_late(job)]
                self._put(over if there[0] in over else [], "expired")
                self._put([job for job in there if job.hold == "key"][: self._room(key)], None)
        self.signals.clear()

    def _candidates(self, queues: list[str], limit: int) -> list[Job]:
        """The jobs that are due. Those whose time to live is over are put aside; the claim looks on behind them."""
        found, looks = [], 0
        for queue in [queue for queue in queues if not self._paused(queue)]:
            due = [job for job in self._waiting(queue) if job.scheduled_at <= self.now]
            while due and len(found) < limit:
                rank = [job for job in due if job.priority == due[0].priority]
                batch = rank[: limit - len(found)]
                over = [job for job in batch if self._too_late(job)]
                aside = [job for job in rank if self._too_late(job)] if over == batch else over
                found += [job for job in batch if job not in over]
                due = [job for job in due if job not in batch and job not in aside]
                self._put(aside, "expired")
                self._signal(job.concurrency_key for job in aside)
                looks += bool(over)
                if over and looks >= LOOKS:
                    break
        return found

    def _admitted(self, found: list[Job]) -> list[Job]:
        """Those beyond the room of their key are put aside; if those were all, those that follow as well."""
        room = {job.concurrency_key: self._room(job.concurrency_key) for job in found}
        of_key = {key: [job for job in found if job.concurrency_key == key] for key in room}
        started = [job for job in found if of_key[job.concurrency_key].index(job) < room[job.concurrency_key]]
        self._put([job for job in found if job not in started], "key")
        if found and not started:
            rest = self._waiting(found[-1].queue, priority=found[-1].priority)
            rest = [job for job in rest if job.concurrency_key in room and job.scheduled_at <= self.now]
            self._put(rest, "key")
        return started

    def _put(self, jobs: list[Job], hold: str | None) -> None:
        """Put them aside, or back."""
        for job in jobs:
            job.hold = hold

    def _start(self, job: Job, fence: int, worker_id: str, lease: timedelta | None = None) -> Row:
        job.set(status="running", current_attempt_id=fence, worker_id=worker_id, claimed_at=self.now)
        job.set(attempt_count=job.attempt_count + 1, claimed_lease=lease or job.lease)
        job.lease_expires_at = self.now + job.claimed_lease
        who = {"job_id": job.id, "attempt_id": fence, "worker_id": worker_id, "claimed_at": self.now}
        self.attempts[fence] = Attempt(**Attempt.NEW, status="running", **who)
        key = self._key_of(job)
        if key is not None:
            key.free = key.free or key.waiting
        return {**vars(job), **who, "lease": job.claimed_lease}
