"""Many jobs, divided into the statements that carry them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from taskq_sync import codec
from taskq_sync.clock import interval_text
from taskq_sync.model import JobRequest
from taskq_sync.options import JobOptions

MAX_JOBS = 10_000
MAX_BYTES = 8 * 1024 * 1024
MAX_ORDERED_KEYS = 256


@frozen
class Batch:
    """The jobs of one statement, all of one queue: their positions in the input, the document, their options."""

    queue: str
    ordinals: Sequence[int]
    jobs_json: str
    options: Sequence[JobOptions]

    @property
    def repeatable_for(self) -> float:
        """For how many seconds the statement may be sent again without a double job: the least of its jobs'."""
        return min(each.repeatable_for for each in self.options)


def batches(
    requests: Iterable[JobRequest], *, max_jobs: int = MAX_JOBS, max_bytes: int = MAX_BYTES
) -> list[Batch]:
    """Return the jobs grouped by queue and cut to what one call takes, queues in the order of their first
    job."""
    by_queue: dict[str, list[tuple[int, JobRequest]]] = {}
    for ordinal, request in enumerate(requests):
        by_queue.setdefault(request.queue, []).append((ordinal, request))
    return [batch for queue, jobs in by_queue.items() for batch in _cut(queue, jobs, max_jobs, max_bytes)]


def document(request: JobRequest) -> str:
    """Return the job as an element of the document that `enqueue_many` takes.

    It has the form of `jsonb::text`, so the length in bytes is what the database will measure.
    """
    beginning, end = _around(request)
    return beginning + request.payload_json + end


def _around(request: JobRequest) -> tuple[str, str]:
    """Return what stands before and after the payload of a job in its document."""
    members = [f', "{name}": {value}' for name, value in _options(request.options)]
    task = json.dumps(request.task, ensure_ascii=False)
    return f'{{"task": {task}, "payload": ', "".join(members) + "}"


def _options(options: JobOptions) -> Iterator[tuple[str, str]]:
    for name, value in options.given.items():
        if name == "scheduled_at":
            yield name, f'"{value.isoformat()}"'
        elif name in ("delay", "backoff", "backoff_max", "lease", "ttl", "unique_for"):
            yield name, f'"{interval_text(value)}"'
        else:
            yield name, codec.to_json(value, name)


def _cut(
    queue: str, jobs: Sequence[tuple[int, JobRequest]], max_jobs: int, max_bytes: int
) -> Iterator[Batch]:
    taken: list[tuple[int, JobOptions]] = []
    documents: list[str] = []
    ordered_keys: set[str] = set()
    size = 2

    def batch() -> Batch:
        ordinals, options = zip(*taken, strict=True)
        return Batch(queue, ordinals, f"[{', '.join(documents)}]", options)

    around, like = ("", ""), None  # what stands around the payload of the job before, and that job
    for ordinal, request in jobs:
        if like is None or request.options is not like.options or request.task != like.task:
            around, like = _around(request), request
        text = around[0] + request.payload_json + around[1]
        length = (len(text) if text.isascii() else len(text.encode())) + 2
        key = request.options.concurrency_key if request.options.ordered else None
        one_key_more = key is not None and key not in ordered_keys
        if taken and (
            len(taken) == max_jobs
            or size + length > max_bytes
            or (one_key_more and len(ordered_keys) == MAX_ORDERED_KEYS)
        ):
            yield batch()
            taken, documents, ordered_keys, size = [], [], set(), 2
        taken.append((ordinal, request.options))
        if key is not None:
            ordered_keys.add(key)
        documents.append(text)
        size += length
    yield batch()
