"""Claimed jobs for tests that need no database."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from taskq_sync.model import ClaimedJob

CLAIMED_AT = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def claimed_job(**changes: Any) -> ClaimedJob:
    """Return a job as a claim would, claimed at `CLAIMED_AT` under a lease of a minute."""
    lease = changes.pop("lease", timedelta(seconds=60))
    fields: dict[str, Any] = {
        "job_id": 7,
        "attempt_id": 70,
        "queue": "mail",
        "task": "mail.welcome",
        "payload_json": "{}",
        "headers_json": None,
        "progress_json": None,
        "priority": 0,
        "attempt_count": 1,
        "failure_count": 0,
        "max_attempts": 5,
        "expiry_streak": 0,
        "scheduled_at": CLAIMED_AT - timedelta(seconds=1),
        "created_at": CLAIMED_AT - timedelta(seconds=1),
        "lease": lease,
        "lease_expires_at": CLAIMED_AT + lease,
        "concurrency_key": None,
    }
    return ClaimedJob(**{**fields, **changes})
