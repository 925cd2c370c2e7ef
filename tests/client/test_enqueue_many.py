"""Many jobs in few statements."""

# Scenario B35.

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from taskq_sync import (
    DatabaseUnavailable,
    EnqueueInterrupted,
    InvalidInput,
    JobRequest,
    PayloadError,
    SchemaError,
    TaskQ,
)
from taskq_sync import client as client_module
from taskq_sync.bulk import Batch, batches

Connection = psycopg.Connection[tuple[Any, ...]]


def declare(tq: TaskQ) -> Any:
    @tq.task(queue="mail", name="mail.welcome")
    def welcome(user_id: int) -> None: ...

    return welcome


def payloads(tq: TaskQ) -> dict[int, object]:
    with tq.database.connection() as session:
        return {job.id: job.payload["user_id"] for job in tq.jobs.list(session, limit=1000)}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a statement take two jobs."""
    monkeypatch.setattr(client_module, "batches", lambda jobs: batches(jobs, max_jobs=2))


def test_returns_results_in_input_order_across_queues_and_batches(
    either_tq: TaskQ, small_batches: None
) -> None:
    welcome = declare(either_tq)
    requests = [welcome.using(queue="ab"[i % 2]).job(user_id=i) for i in range(7)]

    results = either_tq.enqueue_many(requests)

    assert [result.status for result in results] == ["created"] * 7
    assert payloads(either_tq) == {result.job_id: i for i, result in enumerate(results)}
    assert [either_tq.get(result).queue for result in results] == ["a", "b", "a", "b", "a", "b", "a"]


def test_takes_a_generator(tq: TaskQ) -> None:
    welcome = declare(tq)

    assert len(tq.enqueue_many(welcome.job(user_id=i) for i in range(3))) == 3


def test_nothing_is_nothing_and_needs_no_database(make_tq: Callable[..., TaskQ]) -> None:
    assert make_tq("host=/nonexistent").enqueue_many([]) == []


def test_a_duplicate_never_fails_the_others(either_tq: TaskQ) -> None:
    welcome = declare(either_tq)
    before = welcome.using(unique_key="b").enqueue(user_id=0)

    results = either_tq.enqueue_many(
        welcome.using(unique_key=key).job(user_id=i) for i, key in enumerate("abac")
    )

    assert [result.status for result in results] == ["created", "existed", "existed", "created"]
    assert results[1].job_id == before.job_id
    assert results[2].job_id == results[0].job_id


def test_takes_ten_thousand_and_one(tq: TaskQ, conn: Connection) -> None:
    welcome = declare(tq)

    results = tq.enqueue_many((welcome.job(user_id=i) for i in range(10_001)), timeout=60)

    assert len({result.job_id for result in results}) == 10_001
    assert conn.execute("select count(*) from taskq.jobs").fetchone() == (10_001,)


def test_cuts_by_size_before_the_database_refuses(tq: TaskQ, conn: Connection) -> None:
    @tq.task
    def keep(data: str) -> None: ...

    results = tq.enqueue_many((keep.job("é" * 30_000) for _ in range(145)), timeout=60)

    assert len(results) == 145
    assert conn.execute("select count(*) from taskq.jobs").fetchone() == (145,)


class TestErrors:
    def test_of_a_payload_come_before_anything_is_sent(self, make_tq: Callable[..., TaskQ]) -> None:
        tq = make_tq("host=/nonexistent")
        welcome = declare(tq)

        with pytest.raises(PayloadError):
            tq.enqueue_many(welcome.job(user_id=x) for x in (1, "2"))

    def test_of_the_callers_generator_pass_and_nothing_is_in(self, tq: TaskQ) -> None:
        welcome = declare(tq)

        def jobs() -> Iterator[JobRequest]:
            yield welcome.job(user_id=1)
            raise KeyError("the caller's")

        with pytest.raises(KeyError):
            tq.enqueue_many(jobs())
        assert payloads(tq) == {}

    def test_name_the_position_in_the_whole_input(self, tq: TaskQ) -> None:
        welcome = declare(tq)
        bad = welcome.using(queue="b", headers={"x": "y" * 9000}).job(user_id=2)

        with pytest.raises(InvalidInput) as caught:
            tq.enqueue_many([welcome.using(queue="b").job(user_id=0), bad])
        assert caught.value.ordinal == 1
        assert payloads(tq) == {}

    def test_half_way_say_what_is_in(self, tq: TaskQ, small_batches: None) -> None:
        welcome = declare(tq)
        good, bad = welcome.job(user_id=1), welcome.using(headers={"x": "y" * 9000}).job(user_id=2)

        with pytest.raises(EnqueueInterrupted, match=r"2 of 5 jobs are in, then: ") as caught:
            tq.enqueue_many([good, good, good, bad, good])

        error = caught.value
        assert error.enqueued == (0, 1)
        assert set(payloads(tq)) == {job_id for job_id in error.job_ids if job_id is not None}
        assert error.uncertain == ()
        assert isinstance(error.__cause__, InvalidInput)
        assert error.__cause__.ordinal == 3

    def test_from_the_first_statement_are_the_plain_ones(self, make_tq: Callable[..., TaskQ]) -> None:
        tq = make_tq(schema="nothing_here")

        with pytest.raises(SchemaError):
            tq.enqueue_many([declare(tq).job(user_id=1)])

    def test_name_the_jobs_of_which_nobody_knows(
        self, tq: TaskQ, small_batches: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        welcome = declare(tq)
        send = tq._send_batch

        def cut(batch: Batch, *args: Any) -> Any:
            if 2 in batch.ordinals:
                with tq.database.connection() as session:
                    session.connection.pgconn.finish()
                raise client_module.OutcomeUnknown("the link broke")
            return send(batch, *args)

        monkeypatch.setattr(tq, "_send_batch", cut)

        with pytest.raises(EnqueueInterrupted) as caught:
            tq.enqueue_many(welcome.job(user_id=i) for i in range(5))
        assert caught.value.enqueued == (0, 1)
        assert caught.value.uncertain == (2, 3)


def test_threads_with_the_same_keys_crosswise_do_not_deadlock(make_tq: Callable[..., TaskQ]) -> None:
    tq = make_tq(pool_size=4)
    welcome = declare(tq)
    keys = [str(i) for i in range(50)]
    failures: list[BaseException] = []

    def run(order: list[str]) -> None:
        try:
            tq.enqueue_many([welcome.using(unique_key=key).job(user_id=1) for key in order], timeout=30)
        except DatabaseUnavailable as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(keys[::step],)) for step in (1, -1) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(payloads(tq)) == 50
