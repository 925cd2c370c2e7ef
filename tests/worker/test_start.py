"""What is checked before a worker starts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import attrs
import pytest

from kit.contract import Contract
from kit.workers import WorkerThread
from taskq_sync import TaskQ
from taskq_sync.errors import ConfigError, InvalidInput, SchemaError
from taskq_sync.worker import Worker, WorkerConfig
from taskq_sync.worker.config import WorkerOptions

Work = Callable[..., WorkerThread]


def offline() -> TaskQ:
    tq = TaskQ("host=127.0.0.1 port=1 dbname=nowhere")

    @tq.task(queue="q")
    def handler() -> None: ...

    return tq


def test_a_database_that_is_away_at_the_start_has_an_exit_code_of_its_own() -> None:
    worker = WorkerThread(offline())
    assert worker.join() == 69


def test_a_missing_schema_is_an_error_that_says_what_to_do(empty_dsn: str) -> None:
    with TaskQ(empty_dsn) as tq:
        tq.task(queue="q")(offline)
        with pytest.raises(SchemaError, match="migrate"):
            WorkerThread(tq).join()


def test_a_beat_that_is_too_slow_is_refused_with_both_numbers() -> None:
    """B02."""
    with pytest.raises(ConfigError, match="a beat of 2 s is too slow for a lease of 3 s"):
        Worker(offline(), lease=3, beat=2)
    with pytest.raises(ConfigError, match="30 s is too slow for a lease of 60 s"):
        Worker(offline(), beat=30)
    Worker(offline(), beat=29)


@pytest.mark.parametrize(
    "options",
    [
        {"slots": 0},
        {"slots": True},
        {"slots": 1001},
        {"queues": []},
        {"queues": "mail"},
        {"queues": [""]},
        {"queues": {"q": 0}},
        {"queues": {"q": 1001}},
        {"queues": {"q": True}},
        {"queues": {"q": "4"}},
        {"queues": {"q": 4}, "strict": True},
        {"lease": 0.01},
        {"lease": 100_000},
        {"lease": "1 minute"},
        {"poll_interval": 0},
        {"poll_interval": -1},
        {"poll_interval": 1e11},
        {"stop_grace": timedelta.max},
        {"soft_stop_timeout": -1},
        {"max_jobs": 0},
        {"worker_id": ""},
        {"transactions": 0},
        {"stop_grace": -1},
        {"max_stuck": -1},
        {"isolated_max_jobs": 0},
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused_in_the_constructor(options: dict[str, object]) -> None:
    with pytest.raises((ConfigError, InvalidInput), match=next(iter(options)).replace("queues", "queue")):
        Worker(offline(), **options)  # type: ignore[arg-type]


def test_the_typed_options_are_the_fields_of_the_configuration() -> None:
    fields = {each.name for each in attrs.fields(WorkerConfig)} - {"queues"}
    assert set(WorkerOptions.__annotations__) == fields


def test_queues_have_the_weight_1_unless_they_are_given_another() -> None:
    assert Worker(offline(), queues=["b", "a", "b"]).config.queues == {"b": 1, "a": 1}
    assert Worker(offline(), queues={"b": 4, "a": 1}).config.queues == {"b": 4, "a": 1}
    assert Worker(offline()).config.queues == {"q": 1}


def test_a_worker_without_tasks_is_refused() -> None:
    with pytest.raises(ConfigError, match="queue"):
        Worker(TaskQ("host=nowhere"))


def test_two_starts_never_have_the_same_identity() -> None:
    """B01: not even in the same process."""
    tq = offline()
    assert Worker(tq).worker_id != Worker(tq).worker_id


def test_presence_says_who_and_where(tq: TaskQ, work: Work, sql: Contract) -> None:
    @tq.task(queue="q")
    def handler() -> None: ...

    worker = work(slots=3, queues={"q": 4, "r": 1})
    [row] = sql.rows("select worker_id, info from taskq.workers")
    assert row["worker_id"] == worker.worker.worker_id
    info = row["info"]
    assert (info["queues"], info["slots"]) == (["q", "r"], 3)
    assert set(info) >= {"state", "host", "pid", "version"}
