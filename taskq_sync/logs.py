"""What the log says of the job that is running, in whatever logger.

::

    handler = logging.StreamHandler()
    handler.addFilter(JobLogFilter())
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(job)s%(message)s"))

The library logs to `taskq_sync.worker`, and leaves handlers, levels and formats to the program; the command line is
such a program.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any

from taskq_sync.model import ClaimedJob

#: The forms that `set_up` knows.
FORMATS = ("text", "json")

#: The job whose handler runs here. A thread that a handler starts does not know it.
current_job: ContextVar[ClaimedJob | None] = ContextVar("taskq_sync_job", default=None)

_TEXT = "%(asctime)s %(levelname)-7s %(name)s %(job)s%(message)s"

#: The attributes of a record about a job, and what they are called in JSON.
_FIELDS = {
    "job_id": "job_id",
    "job_task": "task",
    "job_queue": "queue",
    "job_attempt": "attempt",
    "job_fence": "fence",
}

_KNOWN = {*vars(logging.makeLogRecord({})), *_FIELDS, "job", "message", "asctime", "taskName"}


class JobLogFilter(logging.Filter):
    """Marks each record that a handler of a job emits with its job; lets all records pass.

    Put it on a handler of `logging`, where it sees the records of all loggers. It sets `job_id`, `job_task`,
    `job_queue`, `job_attempt` (1 for the first) and `job_fence`, all None outside of a job, and for formats `job`:
    `[job 12 mail.welcome attempt 3] `, or nothing. What a record has of these by itself stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Mark *record*."""
        job = current_job.get()
        own = vars(record)
        for name, value in job_fields(job).items():
            own.setdefault(name, value)
        own.setdefault(
            "job",
            "" if job is None else f"[job {job.job_id} {job.task} attempt {job.attempt_count}] ",
        )
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object in one line for each record.

    `time` (ISO 8601, UTC), `level`, `logger`, `message`; with `JobLogFilter` inside of a job `job_id`, `task`,
    `queue`, `attempt` and `fence`; where there are any, `exception`, `stack`, and in `extra` what the program gave
    by the argument of that name.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* as a line."""
        own = vars(record)
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: _plain(own[name]) for name, key in _FIELDS.items() if own.get(name) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        extra = {name: _plain(value) for name, value in own.items() if name not in _KNOWN}
        if extra:
            line["extra"] = extra
        return json.dumps(line)


def job_fields(job: ClaimedJob | None) -> dict[str, Any]:
    """Return the attributes of a record about *job*, without the text for formats."""
    if job is None:
        return dict.fromkeys(_FIELDS)
    return {
        "job_id": job.job_id,
        "job_task": job.task,
        "job_queue": job.queue,
        "job_attempt": job.attempt_count,
        "job_fence": job.attempt_id,
    }


def set_up(level: str, log_format: str) -> None:
    """Log to stderr, from *level* on, as `text` or `json`; does nothing where a program has set up its own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    handler.addFilter(JobLogFilter())
    logging.basicConfig(level=level, handlers=[handler])


def _plain(value: object) -> object:
    """Return *value* if JSON has it, else its text. Another thread may be changing it, and its class may be broken."""
    with contextlib.suppress(Exception):
        return json.loads(json.dumps(value, allow_nan=False))
    try:
        return str(value)
    except Exception:  # the border to user code
        return f"<{type(value).__name__} without a text>"
