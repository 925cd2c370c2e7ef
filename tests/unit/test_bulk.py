"""Many jobs, divided into the statements that carry them."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskq_sync.bulk import batches, document
from taskq_sync.model import JobRequest
from taskq_sync.options import JobOptions


def request(queue: str = "q", payload: str = "{}", **options: Any) -> JobRequest:
    return JobRequest(queue=queue, task="t", payload_json=payload, options=JobOptions(**options))


def test_groups_by_queue_in_the_order_of_first_appearance() -> None:
    made = batches([request("b"), request("a"), request("b")])

    assert [(batch.queue, list(batch.ordinals)) for batch in made] == [("b", [0, 2]), ("a", [1])]


def test_nothing_makes_no_batch() -> None:
    assert batches([]) == []


def test_is_safe_to_repeat_as_long_as_each_of_its_jobs_is() -> None:
    keyed, plain = request(unique_key="u"), request()
    started = request(unique_key="v", unique_scope="waiting", unique_for=60)

    def spans(*requests: JobRequest, max_jobs: int = 10) -> list[float]:
        return [batch.repeatable_for for batch in batches(requests, max_jobs=max_jobs)]

    assert spans(keyed, keyed) == [math.inf]
    assert spans(keyed, started, keyed) == [60]
    assert spans(keyed, started, plain) == [0]
    assert spans(plain, keyed, max_jobs=1) == [0, math.inf]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=40),
    st.integers(1, 7),
    st.integers(120, 300),
)
def test_every_job_is_in_one_batch_within_the_limits(
    jobs: list[tuple[str, int]], max_jobs: int, max_bytes: int
) -> None:
    requests = [request(queue, json.dumps({"é": "é" * size}, ensure_ascii=False)) for queue, size in jobs]

    made = batches(requests, max_jobs=max_jobs, max_bytes=max_bytes)

    seen = {}
    for batch in made:
        documents = json.loads(batch.jobs_json)
        assert 1 <= len(documents) <= max_jobs
        assert len(batch.jobs_json.encode()) <= max_bytes or len(documents) == 1
        for ordinal, element in zip(batch.ordinals, documents, strict=True):
            assert requests[ordinal].queue == batch.queue
            seen[ordinal] = element
    assert [seen[ordinal] for ordinal in range(len(jobs))] == [
        json.loads(document(each)) for each in requests
    ]


def test_a_batch_has_no_more_ordered_keys_than_one_call_takes() -> None:
    keys = [f"k{n % 300}" for n in range(600)]
    ordered = [request(concurrency_key=key, ordered=True) for key in keys]
    free = [request(concurrency_key=key) for key in keys]

    assert [len(each.ordinals) for each in batches(ordered)] == [256, 256, 88]
    assert [len(each.ordinals) for each in batches(free)] == [600]
    assert [len(each.ordinals) for each in batches([request(concurrency_key="k", ordered=True)] * 600)] == [
        600
    ]


def test_a_document_has_the_names_of_the_sql_parameters() -> None:
    noon = datetime(2026, 2, 3, 12, tzinfo=timezone.utc)
    made = request(
        payload='{"a": 1.0}',
        priority=3,
        scheduled_at=noon,
        unique_key='"u"',
        backoff=timedelta(milliseconds=1500),
        headers={"trace": "x"},
        unique_mode="replace",
        unique_for=60,
    )

    assert document(made) == (
        '{"task": "t", "payload": {"a": 1.0}, "priority": 3, "scheduled_at": "2026-02-03T12:00:00+00:00", '
        '"unique_key": "\\"u\\"", "backoff": "1.500000 seconds", "headers": {"trace": "x"}, '
        '"unique_mode": "replace", "unique_for": "60.000000 seconds"}'
    )
