"""What the calls are made with: few names and few durations, so that they meet."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import hypothesis.strategies as st

Row = dict[str, Any]

#: When a run begins: the evening before Europe puts its clocks on.
START = datetime(2030, 3, 30, 18, tzinfo=timezone.utc)
QUEUES = ["a", "b"]
KEYS = ["k", "user:1", "user:2"]
LIMITED = ["k", "k", *KEYS, "user:*", "*"]
WORKERS = ["w1", "w2"]

_ABSENT = object()
#: Seconds, and a day that crosses a change of the clocks.
_durations = st.sampled_from([5, 30, 100, 3600, 86_400]).map(lambda seconds: timedelta(seconds=seconds))
_delays = st.one_of(st.just(timedelta(0)), _durations)

sessions = st.integers(0, 2)
queue = st.sampled_from(QUEUES)
queues = st.sampled_from([["a", "b"], ["b", "a"], ["a"], ["b"]])
worker = st.sampled_from(WORKERS)
#: Which of several; below 0 of those that have ended as well.
which = st.integers(-5, 10)
few = st.sampled_from([10, 1, 2, 3])
why = st.sampled_from([{}, {}, {"actor": "ann", "reason": "it's late"}])
_checkpoints = st.sampled_from([{"at": 1}, {"at": 2}, 7, "x" * 2000, "x" * 2047])


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Row]:
    """Draw some of these arguments, or none."""
    return st.fixed_dictionaries({}, optional=optional)


def few_of(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Row]:
    """Draw each of these arguments one time in four, so that most jobs are plain ones."""
    absent = st.just(_ABSENT)
    drawn = st.fixed_dictionaries(
        {name: st.one_of(absent, absent, absent, strategy) for name, strategy in optional.items()}
    )
    return drawn.map(lambda row: {name: value for name, value in row.items() if value is not _ABSENT})


_plain = few_of(
    payload=st.sampled_from([{}, {"n": 1}]),
    headers=st.just({"h": "1"}),
    priority=st.sampled_from([5, -5]),
    lease=st.sampled_from([timedelta(seconds=10), timedelta(days=1)]),
    max_attempts=st.sampled_from([1, 2, 3]),
    backoff=st.sampled_from([timedelta(0), timedelta(seconds=30), timedelta(days=300)]),
    backoff_max=st.sampled_from([timedelta(seconds=40), timedelta(days=366)]),
    ttl=_durations,
    delay=_delays,
    at=st.sampled_from([timedelta(hours=-1), timedelta(seconds=30)]),  # from now; becomes `scheduled_at`
)
_keyed = some(concurrency_key=st.sampled_from(["k", "k", "k", *KEYS]), ordered=st.booleans())
_unique = st.fixed_dictionaries(
    {"unique_key": st.sampled_from(["u", "u", "v"])},
    optional={
        "unique_mode": st.sampled_from(["replace", "replace", "replace_keep_schedule", "keep"]),
        "unique_scope": st.sampled_from(["waiting", "waiting", "live"]),
        "unique_for": _durations,
    },
)


def _request(parts: tuple[Row, Row, Row, str]) -> Row:
    plain, keyed, unique, task = parts
    job = {"task": task, **plain, **keyed, **unique}
    if "concurrency_key" not in job:
        job.pop("ordered", None)
    if job.get("ordered") and job.get("unique_mode", "keep") != "keep":
        del job["ordered"]
    return job


#: A job; it has a concurrency key or a unique key as often as not.
job = st.tuples(
    _plain, st.one_of(st.just({}), _keyed), st.one_of(st.just({}), _unique), st.sampled_from(["t", "t", "s"])
).map(_request)
#: Many jobs of one key.
crowd = st.lists(
    st.builds(
        lambda plain, more: {"task": "t", "concurrency_key": "k", **plain, **more},
        few_of(priority=st.just(5), ttl=_durations, backoff=st.just(timedelta(0))),
        few_of(ordered=st.just(True), unique_key=st.just("u")),
    ),
    min_size=2,
    max_size=6,
)
jobs = st.one_of(st.lists(job, min_size=1, max_size=5), crowd)

_ends: dict[str, st.SearchStrategy[Row]] = {
    "complete": some(result=st.sampled_from([{"r": 1}, [1], "r"])),
    "fail": st.fixed_dictionaries(
        {"error": st.just("boom")},
        optional={"retryable": st.booleans(), "retry_after": _delays, "progress": _checkpoints},
    ),
    "snooze": st.fixed_dictionaries(
        {"delay": st.one_of(_durations, _durations, st.sampled_from([timedelta(0), timedelta(seconds=0.1)]))},
        optional={"reason": st.just("not now"), "progress": _checkpoints},
    ),
    "release": some(
        delay=_delays, cause=st.sampled_from(["not_started", "worker_shutdown"]), progress=_checkpoints
    ),
    "cancel": some(reason=st.just("no longer wanted")),
}
#: A verb, and what is said with it.
ends = st.sampled_from([*_ends, "fail", "complete"]).flatmap(
    lambda verb: st.tuples(st.just(verb), _ends[verb])
)
beats = some(lease=_durations, progress=_checkpoints)

policies = some(
    max_attempts=st.sampled_from([1, 2]),
    backoff=_delays,
    backoff_max=_delays,
    lease=_durations,
    ttl=_durations,
    aging=st.sampled_from([timedelta(seconds=30), timedelta(days=1)]),
    max_depth=st.sampled_from([3, 6]),
    retention_succeeded=_delays,
    retention_cancelled=_delays,
    retention_failed=_delays,
)
resets = some(
    reset=st.lists(
        st.sampled_from(["ttl", "max_depth", "aging", "lease", "retention_failed"]), min_size=1, unique=True
    )
)
limits = st.sampled_from([2, None, 1, 3, 0])

#: Time that passes; backwards too, as after a restore.
steps = st.sampled_from([5, 1, 30, 59, 61, 100, 600, 3600, 86_400, 3 * 86_400, 31 * 86_400, -7, -3600]).map(
    lambda seconds: timedelta(seconds=seconds)
)
#: Just before an instant, at it, and just after.
nearby = st.sampled_from([0, 0, 1, -1]).map(lambda n: timedelta(microseconds=n))

#: Calls that are refused with TQ422 whatever the state is.
BAD: list[tuple[str, Row]] = [
    ("enqueue", {"queue": "", "task": "t"}),
    ("enqueue", {"queue": "a", "task": "t", "ordered": True}),
    ("enqueue", {"queue": "a", "task": "t", "unique_mode": "replace"}),
    ("enqueue", {"queue": "a", "task": "t", "delay": timedelta(days=367)}),
    ("enqueue", {"queue": "a", "task": "t", "delay": timedelta(0), "scheduled_at": START}),
    ("enqueue_many", {"queue": "a", "jobs": [{"task": "t", "unique_key": "u"}, {"task": "t", "tll": 5}]}),
    (
        "enqueue_many",
        {"queue": "a", "jobs": [{"task": "t", "ordered": True, "concurrency_key": "k"}, {"task": ""}]},
    ),
    ("claim", {"queues": ["a", "a"], "worker_id": "w1"}),
    ("claim", {"queues": ["a"], "worker_id": "w1", "limit": 0}),
    ("claim", {"queues": ["a"], "worker_id": "w1", "lease": timedelta(0)}),
    ("heartbeat", {"worker_id": "w1", "job_ids": [1], "attempt_ids": [1, 2]}),
    ("complete_many", {"worker_id": "w1", "job_ids": [1], "attempt_ids": [1, 2]}),
    ("settle", {"worker_id": "w1", "settlements": {"job_id": 1}}),
    ("poll_hint", {"queues": []}),
    ("announce", {"worker_id": "", "info": {}}),
    ("sleep_until", {"worker_id": "w1", "queues": ["a"], "wakes_at": None}),
    ("hold_singleton", {"name": ""}),
    ("pause_queue", {"queue": ""}),
    ("resume_queue", {"queue": ""}),
    ("purge_queue", {"queue": ""}),
    ("purge_queue", {"queue": "a", "limit": 0}),
    ("set_queue", {"queue": "a", "max_attempts": 0}),
    ("set_queue", {"queue": "a", "reset": ["tll"]}),
    ("set_concurrency_limit", {"key": "k", "max_running": -1}),
    ("set_strict_queues", {"strict": None}),
    ("take_back", {"limit": 0}),
    ("expire_ttl", {"limit": 0}),
    ("prune", {"limit": 0}),
    ("age", {"limit": 0}),
    ("housekeep", {"limit": 0}),
    ("list_jobs", {"status": "done"}),
]
