"""A queue that takes only so many waiting jobs: who is refused, and who waits for room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from taskq_sync import ConfigError, EnqueueInterrupted, QueueFull, TaskQ, retry
from taskq_sync import client as client_module
from taskq_sync.bulk import batches

Connection = psycopg.Connection[tuple[Any, ...]]
LONG = 60.0  # what no test waits out


@pytest.fixture
def welcome(tq: TaskQ) -> Any:
    @tq.task(queue="mail", name="mail.welcome")
    def welcome(user_id: int) -> None: ...

    with tq.database.connection() as session:
        tq.queues.set_queue(session, "mail", actor="test", max_depth=2)
    return welcome


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a call has met a full queue and is about to try again."""
    met = threading.Event()
    pause = retry.pause

    def watched(failures: int, **settings: float) -> float:
        met.set()
        return pause(failures, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(retry, "pause", watched)
    return met


def take_one(tq: TaskQ) -> None:
    with tq.database.connection() as session:
        assert len(tq.jobs.claim(session, ["mail"], "w", 1)) == 1


def test_refuses_with_its_depth(welcome: Any) -> None:
    welcome.enqueue(user_id=1)
    welcome.using(delay=60).enqueue(user_id=2)

    with pytest.raises(QueueFull, match='queue "mail" is full') as caught:
        welcome.enqueue(user_id=3)

    assert (caught.value.depth, caught.value.sqlstate) == (2, "TQ429")


def test_tells_the_depth_in_the_callers_transaction_too(welcome: Any, conn: Connection) -> None:
    for user_id in (1, 2):
        welcome.enqueue(user_id=user_id)

    with pytest.raises(QueueFull) as caught:
        welcome.using(connection=conn).enqueue(user_id=3)

    assert caught.value.depth == 2


def test_a_duplicate_is_welcome_in_a_full_queue(welcome: Any) -> None:
    keyed = welcome.using(unique_key="u")
    first = keyed.enqueue(user_id=1)
    welcome.enqueue(user_id=2)

    assert keyed.enqueue(user_id=3).job_id == first.job_id
    assert keyed.using(unique_mode="replace").enqueue(user_id=3).status == "replaced"


def test_waits_for_room(tq: TaskQ, welcome: Any, refused: threading.Event) -> None:
    for user_id in (1, 2):
        welcome.enqueue(user_id=user_id)

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(welcome.using(block=LONG).enqueue, user_id=3)
        assert refused.wait(LONG)
        assert not answer.done()
        take_one(tq)

        assert tq.get(answer.result(LONG)).payload == {"user_id": 3}


def test_waits_only_so_long(welcome: Any, refused: threading.Event) -> None:
    for user_id in (1, 2):
        welcome.enqueue(user_id=user_id)

    with pytest.raises(QueueFull) as caught:
        welcome.using(block=0.1).enqueue(user_id=3)

    assert caught.value.depth == 2
    assert refused.is_set()


def test_does_not_wait_unless_told(welcome: Any, refused: threading.Event) -> None:
    for user_id in (1, 2):
        welcome.enqueue(user_id=user_id)

    with pytest.raises(QueueFull):
        welcome.enqueue(user_id=3)
    assert not refused.is_set()


class TestMany:
    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a statement take two jobs."""
        monkeypatch.setattr(client_module, "batches", lambda jobs: batches(jobs, max_jobs=2))

    def test_are_refused_as_a_whole_and_those_before_are_told(self, tq: TaskQ, welcome: Any) -> None:
        with pytest.raises(EnqueueInterrupted, match="2 of 4 jobs are in") as caught:
            tq.enqueue_many(welcome.job(user_id=i) for i in range(4))

        assert caught.value.enqueued == (0, 1)
        assert caught.value.uncertain == ()
        assert isinstance(caught.value.__cause__, QueueFull)

    def test_wait_for_room(self, tq: TaskQ, welcome: Any, refused: threading.Event) -> None:
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(tq.enqueue_many, [welcome.job(user_id=i) for i in range(4)], block=LONG)
            assert refused.wait(LONG)
            take_one(tq)
            take_one(tq)

            assert [each.status for each in answer.result(LONG)] == ["created"] * 4

    def test_wait_only_so_long_in_all(self, tq: TaskQ, welcome: Any) -> None:
        with pytest.raises(EnqueueInterrupted) as caught:
            tq.enqueue_many([welcome.job(user_id=i) for i in range(4)], block=0.1)

        assert caught.value.enqueued == (0, 1)

    def test_do_not_wait_in_a_transaction_of_the_callers(
        self, make_tq: Callable[..., TaskQ], welcome: Any, conn: Connection
    ) -> None:
        nowhere = make_tq("host=/nonexistent")

        with pytest.raises(ConfigError, match="cannot wait for room"):
            nowhere.enqueue_many([welcome.job(user_id=1)], connection=conn, block=1)
        with pytest.raises(ConfigError, match="cannot wait for room"):
            nowhere.send(welcome.job(user_id=1), connection=conn, block=1)
