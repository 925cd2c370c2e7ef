"""What a worker and its child process say to each other, as JSON documents.

===================  =======================================================================================
the worker           means
===================  =======================================================================================
`job`                run it; `deadline` is the instant until which its lease is relied on, of the clock that
                     all processes of a machine share
`lease`              the same instant, after a beat
`cancel`             somebody cancelled the job
`lost`               the database says that the attempt has lost the job
`must_end`           nobody waits for handlers any more
`stored`             this checkpoint is in the database
`noted`              the worker knows the stage
===================  =======================================================================================

===================  =======================================================================================
the child            means
===================  =======================================================================================
`ready`              the program is imported
`failed`             it could not be; says why
`checkpoint`         the newest checkpoint
`flush`              the handler waits for it to be stored
`stage`              how far the attempt's own transaction is; the child waits for `noted`
`ended`              the handler has ended: with which verdict, and what its own transaction came to
===================  =======================================================================================
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import attrs

from taskq_sync.model import ClaimedJob, Verdict

_INSTANTS = ("scheduled_at", "created_at", "lease_expires_at")
_MICROSECOND = timedelta(microseconds=1)


def job_to_plain(job: ClaimedJob) -> dict[str, Any]:
    """Return *job* in the types of JSON."""
    plain = {each.name: getattr(job, each.name) for each in attrs.fields(ClaimedJob)}
    plain |= {name: plain[name].isoformat() for name in _INSTANTS}
    return plain | {"lease": job.lease // _MICROSECOND}


def job_of(plain: dict[str, Any]) -> ClaimedJob:
    """Return the job that `job_to_plain` was given."""
    instants = {name: datetime.fromisoformat(plain[name]) for name in _INSTANTS}
    return ClaimedJob(**{**plain, **instants, "lease": plain["lease"] * _MICROSECOND})


def verdict_to_plain(verdict: Verdict | None) -> dict[str, Any] | None:
    """Return *verdict* in the types of JSON."""
    return None if verdict is None else verdict._asdict() | {"members": dict(verdict.members)}


def verdict_of(plain: dict[str, Any] | None) -> Verdict | None:
    """Return the verdict that `verdict_to_plain` was given."""
    return None if plain is None else Verdict(**plain)
