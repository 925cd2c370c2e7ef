"""Unique keys through the client: what a call answers, alone, in bulk, and in transactions that roll back."""

# Scenarios B32, B34, B35, B39.

from __future__ import annotations

import secrets
import string
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from kit.waiting import wait_until_blocked
from taskq_sync import DatabaseUnavailable, InvalidInput, Job, TaskQ
from taskq_sync.errors import OutcomeUnknown

Connection = psycopg.Connection[tuple[Any, ...]]
CAN_CANCEL = pytest.mark.skipif(
    not psycopg.capabilities.has_cancel_safe(), reason="needs libpq 17, see BoundedConnection"
)


def declare(tq: TaskQ) -> Any:
    @tq.task(queue="mail", name="mail.welcome")
    def welcome(user_id: int) -> None: ...

    return welcome


def claim(tq: TaskQ) -> int:
    """Start the one job that is due, and return its id."""
    with tq.database.connection() as session:
        [claimed] = tq.jobs.claim(session, ["mail"], "w", 10)
    return claimed.job_id


def stored(tq: TaskQ) -> list[Job]:
    with tq.database.connection() as session:
        return list(tq.jobs.list(session, limit=1000))


class TestMode:
    def test_replace_gives_a_job_that_waits_the_new_request(self, either_tq: TaskQ) -> None:
        welcome = declare(either_tq).using(unique_key="u", unique_mode="replace")
        first = welcome.using(delay=60).enqueue(user_id=1)

        second = welcome.using(delay=600, priority=5).enqueue(user_id=2)

        assert (second.status, second.job_id) == ("replaced", first.job_id)
        assert (second.created, second.accepted) == (False, True)
        job = either_tq.get(first)
        assert (job.payload, job.priority) == ({"user_id": 2}, 5)
        assert job.scheduled_at is not None
        assert (job.scheduled_at - job.created_at).total_seconds() >= 600

    def test_replace_keep_schedule_leaves_the_time(self, tq: TaskQ) -> None:
        welcome = declare(tq).using(unique_key="u", unique_mode="replace_keep_schedule")
        first = welcome.using(delay=60).enqueue(user_id=1)
        due_at = tq.get(first).scheduled_at

        assert welcome.using(delay=600).enqueue(user_id=2).status == "replaced"

        assert (tq.get(first).scheduled_at, tq.get(first).payload) == (due_at, {"user_id": 2})

    @pytest.mark.parametrize(
        ("options", "status"),
        [
            ({}, "existed"),
            ({"unique_mode": "replace"}, "running"),
            ({"unique_mode": "replace_keep_schedule"}, "running"),
            ({"unique_scope": "waiting"}, "created"),
            ({"unique_scope": "waiting", "unique_mode": "replace"}, "created"),
            ({"unique_for": 3600}, "existed"),
            ({"unique_for": 3600, "unique_mode": "replace"}, "running"),
            ({"unique_scope": "waiting", "unique_for": 3600}, "existed"),
            pytest.param(
                {"unique_scope": "waiting", "unique_for": 3600, "unique_mode": "replace"},
                "running",
            ),
        ],
    )
    def test_a_running_job_stays_as_it_is(self, tq: TaskQ, options: dict[str, Any], status: str) -> None:
        welcome = declare(tq).using(unique_key="u", **options)
        first = welcome.enqueue(user_id=1)
        assert claim(tq) == first.job_id
        before = tq.get(first)

        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: welcome.using(timeout=30).enqueue(user_id=2), range(20)))

        after = tq.get(first)
        assert after == before
        assert (after.status, after.payload, after.worker_id) == ("running", {"user_id": 1}, "w")
        made = [each for each in answers if each.status == "created"]
        if status == "created":  # one follower, which the other calls met
            [follower] = made
            assert {each.job_id for each in answers} == {follower.job_id}
            assert {each.status for each in answers} <= {"created", "existed", "replaced"}
            assert claim(tq) == follower.job_id
        else:
            assert [(each.status, each.job_id) for each in answers] == [(status, first.job_id)] * 20
            with tq.database.connection() as session:
                assert tq.jobs.claim(session, ["mail"], "w", 10) == []


class TestScopeAndSpan:
    def test_waiting_lets_a_follower_in_while_the_job_runs(self, tq: TaskQ) -> None:
        welcome = declare(tq).using(unique_key="u", unique_scope="waiting")
        first = welcome.enqueue(user_id=1)
        assert welcome.enqueue(user_id=2).job_id == first.job_id
        claim(tq)

        follower = welcome.enqueue(user_id=3)

        assert follower.created
        assert welcome.enqueue(user_id=4).job_id == follower.job_id

    def test_a_span_outlasts_the_job(self, tq: TaskQ) -> None:
        welcome = declare(tq).using(unique_key="u", unique_for=3600)
        first = welcome.enqueue(user_id=1)
        with tq.database.connection() as session:
            tq.jobs.cancel(session, first.job_id, actor="test")

        again = welcome.enqueue(user_id=2)

        assert (again.status, again.job_id) == ("existed", first.job_id)


class TestArguments:
    def test_the_same_arguments_meet_the_job_in_every_process(self, make_tq: Callable[..., TaskQ]) -> None:
        tasks = []
        for tq in (make_tq(), make_tq()):

            @tq.task(queue="mail", name="mail.digest", unique=("user_id",))
            def digest(user_id: int, reason: str = "") -> None: ...

            tasks.append(digest)
        first = tasks[0].enqueue(user_id=7, reason="signup")

        assert tasks[1].enqueue(reason="login", user_id=7).job_id == first.job_id
        assert tasks[1].enqueue(user_id=8).created

    def test_numbers_that_postgresql_takes_for_equal_have_one_key(self, tq: TaskQ, conn: Connection) -> None:
        @tq.task(name="count", unique=True)
        def count(n: Any) -> None: ...

        values = [0, -0.0, 1, 1.0, 1e22, 10**22, 0.1, 0.10000000000000002, True, "1", None, 2**53, 2**53 + 1]
        requests = [count.job(n=value) for value in values]

        for one in requests:
            for other in requests:
                equal = conn.execute(
                    "select %s::jsonb = %s::jsonb", (one.payload_json, other.payload_json)
                ).fetchone()
                assert equal == (one.options.unique_key == other.options.unique_key,)

    def test_a_concurrency_key_of_the_payload_reaches_the_job(self, tq: TaskQ) -> None:
        @tq.task(name="sync", concurrency=lambda user_id, **_: f"user:{user_id}")
        def sync(user_id: int) -> None: ...

        [many] = tq.enqueue_many([sync.job(user_id=8)])

        assert tq.get(sync.enqueue(user_id=7)).concurrency_key == "user:7"
        assert tq.get(many).concurrency_key == "user:8"


class TestTransactionThatRollsBack:
    """Scenario B34."""

    def test_leaves_the_key_to_the_caller_that_waited_for_it(
        self, tq: TaskQ, conn: Connection, connect: Callable[..., Connection]
    ) -> None:
        welcome = declare(tq).using(unique_key="k")
        first = connect(autocommit=False)
        second = connect(autocommit=False)
        welcome.using(connection=first).enqueue(user_id=1)

        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(welcome.using(connection=second).enqueue, user_id=2)
            wait_until_blocked(conn, second.info.backend_pid)
            first.rollback()
            result = answer.result()
        second.commit()

        assert result.created
        assert [job.payload for job in stored(tq)] == [{"user_id": 2}]

    @CAN_CANCEL
    def test_or_to_nobody_when_that_one_has_waited_long_enough(
        self, tq: TaskQ, connect: Callable[..., Connection]
    ) -> None:
        welcome = declare(tq).using(unique_key="k")
        first = connect(autocommit=False)
        welcome.using(connection=first).enqueue(user_id=1)

        with pytest.raises(DatabaseUnavailable, match=r"could not enqueue within 0\.3 s") as caught:
            welcome.using(timeout=0.3).enqueue(user_id=2)

        assert not isinstance(caught.value, OutcomeUnknown)
        first.rollback()
        assert stored(tq) == []

    def test_fifty_callers_at_once_make_one_job(self, make_tq: Callable[..., TaskQ]) -> None:
        tq = make_tq(pool_size=10)
        welcome = declare(tq).using(unique_key="z", timeout=60)
        start = threading.Barrier(50)

        def enqueue(user_id: int) -> Any:
            start.wait()
            return welcome.enqueue(user_id=user_id)

        with ThreadPoolExecutor(50) as threads:
            answers = list(threads.map(enqueue, range(50)))

        assert sorted(each.status for each in answers) == ["created"] + ["existed"] * 49
        assert len({each.job_id for each in answers}) == 1


class TestBulk:
    """Scenario B35."""

    def test_answers_in_input_order_whatever_becomes_of_each(self, tq: TaskQ) -> None:
        welcome = declare(tq)
        running = welcome.using(unique_key="r").enqueue(user_id=0)
        claim(tq)
        waiting = welcome.using(unique_key="b").enqueue(user_id=0)

        results = tq.enqueue_many(
            welcome.using(unique_key=key, unique_mode=mode).job(user_id=i)
            for i, (key, mode) in enumerate(
                [("a", None), ("b", None), ("a", None), ("c", None), ("b", "replace"), ("r", "replace")]
            )
        )

        assert [each.status for each in results] == [
            "created", "existed", "existed", "created", "replaced", "running",
        ]  # fmt: skip
        assert [results[i].job_id for i in (1, 2, 4, 5)] == [
            waiting.job_id, results[0].job_id, waiting.job_id, running.job_id,
        ]  # fmt: skip

    def test_ten_thousand_with_duplicates_are_one_call(self, tq: TaskQ) -> None:
        welcome = declare(tq)
        welcome.using(unique_key="5").enqueue(user_id=0)

        results = tq.enqueue_many(
            (welcome.using(unique_key=str(i % 5000)).job(user_id=i) for i in range(10_000)), timeout=120
        )

        assert [each.status for each in results[:5000]] == [
            "existed" if i == 5 else "created" for i in range(5000)
        ]
        assert {each.status for each in results[5000:]} == {"existed"}
        assert [each.job_id for each in results[5000:]] == [each.job_id for each in results[:5000]]


class TestLengthOfAKey:
    """Scenario B39."""

    @pytest.mark.parametrize("name", ["unique_key", "concurrency_key"])
    @pytest.mark.parametrize(
        "key",
        ["".join(secrets.choice(string.ascii_letters) for _ in range(3000)), "x" * 50_000, "", "é" * 128],
    )
    def test_is_refused_before_anything_is_sent_with_the_limit_in_bytes(
        self, make_tq: Callable[..., TaskQ], name: str, key: str
    ) -> None:
        nowhere = declare(make_tq("host=/nonexistent"))

        with pytest.raises(
            InvalidInput, match=f"{name} must have 1 to 255 bytes, it has {len(key.encode())}"
        ):
            nowhere.using(**{name: key}).enqueue(user_id=1)

    def test_may_be_255_bytes_that_do_not_compress(self, tq: TaskQ) -> None:
        welcome = declare(tq)
        key = "".join(secrets.choice(string.ascii_letters) for _ in range(255))

        result = welcome.using(unique_key=key, concurrency_key=key).enqueue(user_id=1)

        assert (tq.get(result).unique_key, tq.get(result).concurrency_key) == (key, key)

    def test_does_not_matter_for_a_key_of_arguments(self, tq: TaskQ) -> None:
        @tq.task(name="many", unique=True)
        def many(ids: list[int]) -> None: ...

        ids = list(range(10_000))

        assert many.enqueue(ids=ids).created
        assert many.enqueue(ids=ids).status == "existed"

    def test_none_is_no_key_and_a_space_makes_another_key(self, tq: TaskQ) -> None:
        welcome = declare(tq)

        for key in (None, None, "k", "k "):
            assert welcome.using(unique_key=key).enqueue(user_id=1).created
