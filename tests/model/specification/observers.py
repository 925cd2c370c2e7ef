"""What people see."""

from __future__ import annotations

from collections import Counter

from model.specification.state import Row, State


class Observers(State):
    """The functions of observers."""

    def get_job(self, job_id: int) -> list[Row]:
        return [vars(self._job(job_id))]

    def list_jobs(self, limit: int = 50, before_id: int | None = None, **wanted: str) -> list[Row]:
        """The newest first, a page at a time."""
        page = [job for job in self._jobs(**wanted) if before_id is None or job.id < before_id]
        return [vars(job) for job in sorted(page, key=lambda job: -job.id)[:limit]]

    def job_history(self, job_id: int) -> list[Row]:
        self._job(job_id)
        return [vars(attempt) for _, attempt in sorted(self.attempts.items()) if attempt.job_id == job_id]

    def queue_stats(self, queue: str | None = None) -> list[Row]:
        named = {job.queue for job in self.jobs.values() if job.lives or job.status == "failed"}
        return [self._stats(each) for each in (sorted({*named, *self.queues}) if queue is None else [queue])]

    def _stats(self, queue: str) -> Row:
        free = [job.scheduled_at for job in self._waiting(queue)]
        due, later = [at for at in free if at <= self.now], [at for at in free if at > self.now]
        count = Counter(job.status for job in self.jobs.values() if job.queue == queue)
        row = {"queue": queue, "paused": self._paused(queue)}
        row |= {"running": count["running"], "failed": count["failed"]}
        row |= {"ready": len(due), "delayed": len(later), "held": count["queued"] - len(free)}
        age = self.now - min(due) if due else None
        return {**row, "oldest_ready_age": age, "next_due_at": min(later, default=None)}

    def check_integrity(self) -> list[Row]:
        return []

    def schema_version(self) -> list[Row]:
        """It is the library's, and the same at all times."""
        return [{}]
