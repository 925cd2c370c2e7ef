"""What a caller sees when the database is slow, gone, or goes away in between; and that no job is doubled."""

# Scenarios B13, B16, B17, B24, B34, B64, B78.

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kit.proxy import Proxy
from taskq_sync import DatabaseUnavailable, OutcomeUnknown, TaskQ, WrongState, retry
from taskq_sync.clock import Deadline
from taskq_sync.db.session import CANCEL_GRACE

Connection = psycopg.Connection[tuple[Any, ...]]
CAN_CANCEL = pytest.mark.skipif(
    not psycopg.capabilities.has_cancel_safe(), reason="needs libpq 17, see BoundedConnection"
)
LATE = 10.0  # what no call of these tests may take, with time for a busy machine


def declare(tq: TaskQ) -> Any:
    @tq.task(queue="mail", name="mail.welcome")
    def welcome(user_id: int) -> None: ...

    return welcome


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    made = Proxy(dsn)
    yield made
    made.close()


@pytest.fixture
def tq(proxy: Proxy) -> Iterator[TaskQ]:
    """A client behind the proxy."""
    with TaskQ(proxy.dsn) as made:
        yield made


@pytest.fixture
def pooled_tq(proxy: Proxy) -> Iterator[TaskQ]:
    """A client behind the proxy that believes in a pooler."""
    with TaskQ(proxy.dsn, pooled=True) as made:
        yield made


@pytest.fixture
def jobs(conn: Connection) -> Callable[[], list[int]]:
    """The users of all jobs that are committed."""
    return lambda: [
        row[0] for row in conn.execute("select payload['user_id']::int from taskq.jobs order by id")
    ]


@pytest.fixture
def within_seconds() -> Iterator[None]:
    """Fail when the test takes as long as a call without a deadline would."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < LATE


def lose_the_reply(proxy: Proxy, to: bytes = b"") -> None:
    """Break the link at the next reply that holds *to*, after the server has sent it."""

    def decide(data: bytes) -> bytes | None:
        if to in data:
            proxy.on_reply = lambda data: data
            return None
        return data

    proxy.on_reply = decide


class TestLinkBrokenWhileIdle:
    def test_by_the_server_costs_the_caller_nothing(
        self, tq: TaskQ, conn: Connection, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        conn.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
            "where application_name = 'taskq-client' and datname = current_database()"
        )

        welcome.enqueue(user_id=2)

        assert jobs() == [1, 2]

    def test_by_the_network_costs_the_caller_nothing(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        proxy.cut()

        welcome.enqueue(user_id=2)

        assert jobs() == [1, 2]


class TestReplyLost:
    def test_without_a_key_is_unknown_and_not_repeated(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        lose_the_reply(proxy)

        with pytest.raises(OutcomeUnknown, match="may or may not have been done"):
            welcome.enqueue(user_id=2)

        assert jobs() == [1, 2]
        welcome.enqueue(user_id=3)
        assert jobs() == [1, 2, 3]

    def test_with_a_key_is_repeated_and_makes_one_job(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        lose_the_reply(proxy)

        result = welcome.using(unique_key="u").enqueue(user_id=2)

        assert result.status == "existed"
        assert tq.get(result).payload == {"user_id": 2}
        assert jobs() == [1, 2]

    def test_with_a_key_that_ends_with_the_start_is_unknown_and_not_repeated(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        """A worker may have started the job at once, and a second one would be made."""
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        lose_the_reply(proxy)

        with pytest.raises(OutcomeUnknown):
            welcome.using(unique_key="u", unique_scope="waiting", unique_for=1).enqueue(user_id=2)

        assert jobs() == [1, 2]

    @pytest.mark.parametrize("scope", ["live", "waiting"])
    def test_with_a_key_that_outlasts_the_call_is_repeated_and_makes_one_job(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]], scope: str, conn: Connection
    ) -> None:
        """Even when the job has ended before the call is repeated."""
        welcome = declare(tq)
        welcome.enqueue(user_id=1)

        def end_the_job(data: bytes) -> None:
            proxy.on_reply = lambda data: data
            conn.execute("select taskq.cancel_job(max(id)) from taskq.jobs")

        proxy.on_reply = end_the_job

        result = welcome.using(unique_key="u", unique_scope=scope, unique_for=3600).enqueue(user_id=2)

        assert result.status == "existed"
        assert tq.get(result).payload == {"user_id": 2}
        assert jobs() == [1, 2]

    def test_of_a_replace_is_repeated(self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]) -> None:
        welcome = declare(tq).using(unique_key="u", unique_mode="replace")
        first = welcome.enqueue(user_id=1)
        lose_the_reply(proxy)

        result = welcome.enqueue(user_id=2)

        assert (result.status, result.job_id) == ("replaced", first.job_id)
        assert jobs() == [2]

    @pytest.mark.parametrize("many", [False, True])
    def test_of_a_replace_whose_job_was_started_meanwhile_is_unknown(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]], conn: Connection, many: bool
    ) -> None:
        """`running` would say that the running job has an older request; it may have this one."""
        welcome = declare(tq).using(unique_key="u", unique_mode="replace")
        welcome.enqueue(user_id=1)

        def start_the_job(data: bytes) -> None:
            proxy.on_reply = lambda data: data
            conn.execute("select taskq.claim(p_queues => '{mail}', p_worker_id => 'w')")

        proxy.on_reply = start_the_job

        with pytest.raises(OutcomeUnknown, match="may or may not have been done"):
            tq.enqueue_many([welcome.job(user_id=2)]) if many else welcome.enqueue(user_id=2)

        assert jobs() == [2]

    def test_with_a_key_stays_unknown_when_the_queue_is_full_at_the_repetition(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]], conn: Connection
    ) -> None:
        """A full queue says that nothing was enqueued, and the job came in and has ended."""
        welcome = declare(tq)
        welcome.enqueue(user_id=1)

        def end_the_job_and_fill_the_queue(data: bytes) -> None:
            proxy.on_reply = lambda data: data
            conn.execute("select taskq.cancel_job(max(id)) from taskq.jobs")
            conn.execute("select taskq.set_queue(p_queue => 'mail', p_max_depth => 1)")

        proxy.on_reply = end_the_job_and_fill_the_queue

        with pytest.raises(OutcomeUnknown):
            welcome.using(unique_key="u", block=0.1).enqueue(user_id=2)

        assert jobs() == [1, 2]

    def test_with_a_key_stays_unknown_when_the_database_does_not_come_back(
        self, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        with TaskQ(proxy.dsn, timeout=0.5) as tq:
            welcome = declare(tq)
            welcome.enqueue(user_id=1)

            def go_away(data: bytes) -> None:
                threading.Thread(target=proxy.stop, name="proxy-stop").start()

            proxy.on_reply = go_away
            with pytest.raises(OutcomeUnknown, match="may or may not have been done"):
                welcome.using(unique_key="u").enqueue(user_id=2)

        assert jobs() == [1, 2]

    def test_of_many_with_keys_is_repeated(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        lose_the_reply(proxy)

        tq.enqueue_many(welcome.using(unique_key=str(i)).job(user_id=i) for i in (2, 3))

        assert jobs() == [1, 2, 3]

    def test_of_many_without_keys_is_unknown(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        lose_the_reply(proxy)

        with pytest.raises(OutcomeUnknown):
            tq.enqueue_many(welcome.using(unique_key=key).job(user_id=2) for key in ("u", None))
        assert jobs() == [1, 2, 2]

    def test_of_a_look_is_repeated(self, tq: TaskQ, proxy: Proxy) -> None:
        result = declare(tq).enqueue(user_id=1)
        lose_the_reply(proxy)

        assert tq.get(result).payload == {"user_id": 1}

    def test_before_the_commit_is_repeated_for_nothing_was_done(
        self, pooled_tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(pooled_tq)
        welcome.enqueue(user_id=1)
        lose_the_reply(proxy, to=b"created")

        welcome.enqueue(user_id=2)

        assert jobs() == [1, 2]

    def test_of_the_commit_is_unknown(
        self, pooled_tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(pooled_tq)
        welcome.enqueue(user_id=1)
        lose_the_reply(proxy, to=b"COMMIT")

        with pytest.raises(OutcomeUnknown, match="commit"):
            welcome.enqueue(user_id=2)
        assert jobs() == [1, 2]


@pytest.mark.usefixtures("within_seconds")
class TestDeadline:
    @CAN_CANCEL
    def test_ends_a_statement_that_waits_for_a_lock_and_nothing_is_done(
        self, tq: TaskQ, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        holder = connect(autocommit=False)
        welcome.using(connection=holder, unique_key="k").enqueue(user_id=1)

        with pytest.raises(DatabaseUnavailable, match=r"could not enqueue within 0\.3 s") as caught:
            welcome.using(unique_key="k", timeout=0.3).enqueue(user_id=2)

        assert not isinstance(caught.value, OutcomeUnknown)
        holder.rollback()
        assert jobs() == []

    @CAN_CANCEL
    def test_leaves_a_connection_that_goes_on_serving(
        self, tq: TaskQ, proxy: Proxy, connect: Callable[..., Connection]
    ) -> None:
        welcome = declare(tq)
        holder = connect(autocommit=False)
        welcome.using(connection=holder, unique_key="k").enqueue(user_id=1)
        welcome.enqueue(user_id=2)
        with pytest.raises(DatabaseUnavailable):
            welcome.using(unique_key="k", timeout=0.3).enqueue(user_id=3)
        holder.rollback()
        links = proxy.links

        welcome.enqueue(user_id=4)

        assert proxy.links == links

    def test_ends_the_wait_for_a_server_that_says_nothing(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)
        welcome.enqueue(user_id=1)
        proxy.on_reply = lambda data: b""
        started = time.monotonic()

        with pytest.raises(OutcomeUnknown, match="no answer from the server"):
            welcome.using(timeout=0.3).enqueue(user_id=2)

        assert 0.3 <= time.monotonic() - started < 0.3 + 2 * CANCEL_GRACE + 3
        proxy.on_reply = lambda data: data
        welcome.enqueue(user_id=3)
        assert jobs() == [1, 2, 3]

    def test_ends_the_connecting_to_a_server_that_says_nothing(self, tq: TaskQ, proxy: Proxy) -> None:
        proxy.on_reply = lambda data: b""

        with pytest.raises(DatabaseUnavailable, match=r"could not connect to .*timeout"):
            declare(tq).using(timeout=0.3).enqueue(user_id=1)

    def test_ends_the_wait_for_a_connection_of_the_pool(self, proxy: Proxy) -> None:
        in_use = pytest.raises(DatabaseUnavailable, match=r"all 1 connections of taskq-client were in use")

        with TaskQ(proxy.dsn, pool_size=1) as tq, tq.database.connection(), in_use:
            declare(tq).using(timeout=0.1).enqueue(user_id=1)

    def test_ends_the_repetitions_while_the_server_is_down(self, tq: TaskQ, proxy: Proxy) -> None:
        proxy.stop()
        started = time.monotonic()

        with pytest.raises(DatabaseUnavailable, match="could not connect") as caught:
            declare(tq).using(timeout=0.5).enqueue(user_id=1)

        assert not isinstance(caught.value, OutcomeUnknown)
        assert time.monotonic() - started < 3
        assert isinstance(caught.value.__cause__, psycopg.OperationalError)


def test_a_server_that_comes_back_in_time_is_met_again(
    tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    welcome = declare(tq)
    welcome.enqueue(user_id=1)
    proxy.stop()
    failures = []

    def pause(failure: int, **settings: float) -> float:
        failures.append(failure)
        if failure == 2:
            proxy.start()
        return 0.0

    monkeypatch.setattr(retry, "pause", pause)

    welcome.using(timeout=LATE).enqueue(user_id=2)

    assert failures == [1, 2]

    assert jobs() == [1, 2]


def test_a_database_that_does_not_exist_is_told_at_once(tq: TaskQ, proxy: Proxy) -> None:
    missing = pytest.raises(DatabaseUnavailable, match='"nothing_here" does not exist')

    with TaskQ(psycopg.conninfo.make_conninfo(proxy.dsn, dbname="nothing_here")) as nowhere, missing:
        declare(nowhere).using(timeout=60).enqueue(user_id=1)

    assert proxy.links == 1


@pytest.mark.own_database
def test_a_node_that_became_read_only_is_left(
    tq: TaskQ, connect: Callable[..., Connection], proxy: Proxy, jobs: Callable[[], list[int]]
) -> None:
    admin = connect()
    [(name,)] = admin.execute("select quote_ident(current_database())").fetchall()
    welcome = declare(tq)
    admin.execute(f"alter database {name} set default_transaction_read_only = on")
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        welcome.using(timeout=0.2).enqueue(user_id=1)
    admin.execute(f"alter database {name} reset default_transaction_read_only")

    welcome.enqueue(user_id=2)

    assert jobs() == [2]


@pytest.mark.own_database
def test_a_statement_timeout_of_the_role_is_an_unavailable_database(
    tq: TaskQ, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
) -> None:
    admin, holder = connect(), connect(autocommit=False)
    [(name,)] = admin.execute("select quote_ident(current_database())").fetchall()
    welcome = declare(tq)
    welcome.using(connection=holder, unique_key="k").enqueue(user_id=1)
    admin.execute(f"alter database {name} set statement_timeout = '50ms'")

    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        welcome.using(unique_key="k", timeout=0.5).enqueue(user_id=2)
    admin.execute(f"alter database {name} reset statement_timeout")
    holder.rollback()

    assert welcome.using(unique_key="k").enqueue(user_id=3).created
    assert jobs() == [3]


class TestTransaction:
    def test_commits_at_its_end(self, tq: TaskQ, jobs: Callable[[], list[int]]) -> None:
        welcome = declare(tq)

        with tq.database.connection() as session:
            with session.transaction():
                welcome.using(connection=session.connection).enqueue(user_id=1)
                assert session.in_transaction
                assert jobs() == []
            assert not session.in_transaction

        assert jobs() == [1]

    def test_rolls_back_and_passes_the_error_of_the_block(
        self, tq: TaskQ, jobs: Callable[[], list[int]]
    ) -> None:
        def work() -> None:
            with tq.database.connection() as session, session.transaction():
                declare(tq).using(connection=session.connection).enqueue(user_id=1)
                raise KeyError("the block's")

        with pytest.raises(KeyError, match="the block's"):
            work()
        assert jobs() == []

    def test_that_was_aborted_by_a_swallowed_error_is_no_success(self, tq: TaskQ) -> None:
        def work() -> None:
            swallowed = pytest.raises(psycopg.errors.DivisionByZero)
            with tq.database.connection() as session, session.transaction(), swallowed:
                session.connection.execute("select 1 / 0")

        with pytest.raises(WrongState, match="has been rolled back"):
            work()

    def test_is_read_committed_whatever_the_default(self, tq: TaskQ) -> None:
        with tq.database.connection() as session:
            session.connection.execute("set default_transaction_isolation = 'serializable'")
            with session.transaction():
                row = session.connection.execute("show transaction_isolation").fetchone()

        assert row == ("read committed",)

    def test_whose_link_breaks_before_the_commit_has_done_nothing(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)

        def work() -> None:
            with tq.database.connection() as session, session.transaction():
                welcome.using(connection=session.connection).enqueue(user_id=1)
                lose_the_reply(proxy)
                tq.jobs.schema_version(session)

        with pytest.raises(DatabaseUnavailable) as caught:
            work()
        assert not isinstance(caught.value, OutcomeUnknown)
        assert jobs() == []

    def test_whose_link_breaks_at_the_commit_is_unknown(
        self, tq: TaskQ, proxy: Proxy, jobs: Callable[[], list[int]]
    ) -> None:
        welcome = declare(tq)

        def work() -> None:
            with tq.database.connection() as session, session.transaction():
                welcome.using(connection=session.connection).enqueue(user_id=1)
                lose_the_reply(proxy)

        with pytest.raises(OutcomeUnknown, match="commit"):
            work()
        assert jobs() == [1]


class TestListener:
    def test_hears_the_queues(self, tq: TaskQ, connect: Callable[..., Connection]) -> None:
        listener = tq.database.listen("taskq-test-listener")
        caller = connect(autocommit=False)
        for queue in ("a", "b", "a"):
            declare(tq).using(connection=caller, queue=queue).enqueue(user_id=1)

        assert listener.wait(0) == frozenset()
        caller.commit()
        heard = listener.wait(LATE)
        heard |= listener.wait(0.1)
        listener.close()

        assert heard == {"a", "b"}

    def test_begins_in_time_or_not_at_all(self, tq: TaskQ, proxy: Proxy) -> None:
        proxy.on_reply = lambda data: b"" if b"LISTEN" in data else data

        with pytest.raises(DatabaseUnavailable, match="could not listen: no answer from the server"):
            tq.database.listen("taskq-test-listener", 0.3)

    def test_tells_that_the_link_is_broken(self, tq: TaskQ, proxy: Proxy) -> None:
        listener = tq.database.listen("taskq-test-listener")
        cutter = threading.Timer(0.05, proxy.cut)
        cutter.start()

        with pytest.raises(DatabaseUnavailable, match="could not listen"):
            listener.wait(LATE)
        cutter.join()
        assert listener.session.closed


def test_a_dedicated_session_has_the_name_it_was_given(tq: TaskQ, conn: Connection) -> None:
    with tq.database.connect("taskq-w1-heartbeat") as session:
        rows = conn.execute(
            "select pid from pg_stat_activity where application_name = 'taskq-w1-heartbeat'"
        ).fetchall()
        assert rows == [(session.backend_pid,)]
        with session.within(Deadline.after(LATE)):
            assert tq.jobs.check_integrity(session) == []
    assert session.closed
