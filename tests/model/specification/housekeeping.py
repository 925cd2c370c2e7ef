"""What has to be done again and again; *limit* bounds what one call does."""

from __future__ import annotations

from collections.abc import Iterable

from model.specification.settlements import Settlements
from model.specification.state import DAY, MINUTE, Job, Row


class Housekeeping(Settlements):
    """The passes."""

    def take_back(self, limit: int = 1000) -> list[Row]:
        """After an outage the owners come first: a pass that is late takes what had lapsed before the last one."""
        last, self.last_take_back = self.last_take_back, self.now
        on_time = last is None or self.now - MINUTE <= last <= self.now
        until = self.now if on_time else min(last, self.now)
        lapsed = [job for job in self._jobs(status="running") if job.lease_expires_at <= until]
        lapsed = sorted(lapsed, key=lambda job: job.id)[:limit]
        said = {"verb": "take_back", "reason": "the lease ran out"}
        return [self._settle(None, job.id, job.current_attempt_id, **said) for job in lapsed]

    def expire_ttl(self, limit: int = 1000) -> list[Row]:
        """Who was not started in time, also between two attempts."""
        over = self._first("expires_at", filter(self._too_late, self.jobs.values()), limit)
        self._end_waiting(over, "expired_ttl", "its time to live was over")
        return [{"expire_ttl": len(over)}]

    def prune(self, limit: int = 1000) -> list[Row]:
        """Who has ended and is over its retention, with all that belongs to it; and what else would grow."""
        over = [job for job in self.jobs.values() if not job.lives and job.purge_at <= self.now]
        gone = {job.id for job in self._first("purge_at", over, limit)}
        self.jobs = {job_id: job for job_id, job in self.jobs.items() if job_id not in gone}
        self.keys = {name: key for name, key in self.keys.items() if key.job_id not in gone}
        self.attempts = {fence: each for fence, each in self.attempts.items() if each.job_id not in gone}
        old = [row for row in self.audit if row["at"] <= self.now - 90 * DAY]
        old = sorted(old, key=lambda row: (row["at"], row in self.seen_audit))[:limit]
        self.audit = [row for row in self.audit if not any(row is each for each in old)]
        self.presence = {name: row for name, row in self.presence.items() if row["seen_at"] > self.now - DAY}
        self.sleepers = {name: row for name, row in self.sleepers.items() if row["wakes_at"] > self.now - DAY}
        return [{"prune": len(gone)}]

    def _first(self, instant: str, jobs: Iterable[Job], limit: int) -> list[Job]:
        return sorted(jobs, key=lambda job: (getattr(job, instant), self._was_left(job)))[:limit]

    def age(self, limit: int = 1000) -> list[Row]:
        """Who has been due for the `aging` of its queue is raised to the highest priority that waits there."""
        raised = 0
        for queue in sorted(name for name, queue in self.queues.items() if "aging" in queue.policy):
            until, waiting = self.now - self.queues[queue].policy["aging"], self._waiting(queue)
            for job in waiting:
                if job.priority < waiting[0].priority and job.scheduled_at <= until and raised < limit:
                    job.priority, raised = waiting[0].priority, raised + 1
        return [{"age": raised}]

    def housekeep(self, limit: int = 1000) -> list[Row]:
        taken_back = len(self.take_back(limit))
        [expired], [pruned], [raised] = self.expire_ttl(limit), self.prune(limit), self.age(limit)
        row = {"taken_back": taken_back, "expired": expired["expire_ttl"]}
        return [{**row, "pruned": pruned["prune"], "raised": raised["age"]}]
