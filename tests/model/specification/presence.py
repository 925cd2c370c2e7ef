"""Which workers are there, and when they are to look. Nothing about a job depends on it."""

from __future__ import annotations

from datetime import datetime

from model.specification.operators import Operators
from model.specification.state import MINUTE, Refused, Row


class Presence(Operators):
    """The functions about workers, of all roles."""

    def poll_hint(self, queues: list[str]) -> list[Row]:
        return [self._hint(queue) for queue in queues]

    def _hint(self, queue: str) -> Row:
        """`ready` where the next claim has something to do, and when to look again where it is `empty`."""
        again = [job for key in self.signals for job in self._jobs(hold="key", concurrency_key=key)]
        again += [job for key in self.signals for job in self._next_in_order(key)]
        times = [job.scheduled_at for job in self._waiting(queue)]
        ready = any(job.queue == queue for job in again) or any(at <= self.now for at in times)
        if self._paused(queue) or ready:
            return {"queue": queue, "state": "paused" if self._paused(queue) else "ready"}
        return {"queue": queue, "state": "empty", "next_due_at": min(times, default=None)}

    def announce(self, worker_id: str, info: Row) -> list[Row]:
        worker = self.presence.pop(worker_id, {"started_at": self.now, "stop_requested": False})
        if info["state"] == "stopped":
            self.sleepers.pop(worker_id, None)
        else:
            self.presence[worker_id] = {**worker, "worker_id": worker_id, "info": info, "seen_at": self.now}
        paused = sorted(queue for queue in info["queues"] if self._paused(queue))
        return [{"stop_requested": worker["stop_requested"], "paused_queues": paused}]

    def sleep_until(self, worker_id: str, queues: list[str], wakes_at: datetime) -> list[Row]:
        self.sleepers[worker_id] = {"worker_id": worker_id, "queues": queues, "wakes_at": wakes_at}
        return [{}]

    def awake(self, worker_id: str) -> list[Row]:
        self.sleepers.pop(worker_id, None)
        return [{}]

    def hold_singleton(self, name: str) -> list[Row]:
        """The first session that asks has the name until it ends."""
        return [{"hold_singleton": self.singletons.setdefault(name, self.session) == self.session}]

    def stop_worker(self, worker_id: str, **why: str) -> list[Row]:
        """It learns of it when it announces itself."""
        if worker_id not in self.presence:
            raise Refused("TQ001")
        result = "already_requested" if self.presence[worker_id]["stop_requested"] else "requested"
        self.presence[worker_id]["stop_requested"] = True
        self._note("stop_worker", f"worker {worker_id}", why, result=result)
        return [{"worker_id": worker_id, "result": result}]

    def workers(self, worker_id: str | None = None) -> list[Row]:
        """One that was not heard of for three times its half minute is silent."""
        rows = [self._worker(row) for row in self.presence.values() if worker_id in (None, row["worker_id"])]
        return sorted(rows, key=lambda row: (row["started_at"], row["worker_id"]))

    def _worker(self, row: Row) -> Row:
        running = self._jobs(status="running", worker_id=row["worker_id"])
        state = "silent" if row["seen_at"] < self.now - 1.5 * MINUTE else row["info"]["state"]
        return {**row, **row["info"], "state": state, "running": len(running), "info": {}}
