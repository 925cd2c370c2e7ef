"""Jobs in the caller's transaction: they exist if and when the caller commits."""

# Scenarios B34, B37, B52, B76, B81.

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from types import ModuleType
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy import orm

from taskq_sync import ConfigError, InvalidInput, PayloadError, TaskQ

Connection = psycopg.Connection[tuple[Any, ...]]
NOON = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=timezone.utc)


@pytest.fixture
def welcome(tq: TaskQ) -> Any:
    """A task; a second argument of another type than its own is refused."""

    @tq.task(queue="mail", name="mail.welcome")
    def welcome(user_id: int) -> None: ...

    return welcome


@pytest.fixture
def jobs(conn: Connection) -> Callable[[], list[int]]:
    """The users of all jobs that are committed."""
    return lambda: [
        row[0] for row in conn.execute("select payload['user_id']::int from taskq.jobs order by id")
    ]


@pytest.fixture
def psycopg2() -> ModuleType:
    """The older driver, which is not installed everywhere."""
    return pytest.importorskip("psycopg2")  # type: ignore[no-any-return]


@pytest.fixture
def engine(dsn: str) -> Iterator[sqlalchemy.Engine]:
    """An engine of SQLAlchemy over psycopg."""
    made = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=sqlalchemy.NullPool
    )
    yield made
    made.dispose()


class TestPsycopg:
    def test_a_job_is_there_after_commit(
        self, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False)

        result = welcome.using(connection=caller).enqueue(user_id=7)

        assert result.created
        assert jobs() == []
        assert caller.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        caller.commit()
        assert jobs() == [7]

    def test_a_job_is_gone_after_rollback(
        self, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False)

        welcome.using(connection=caller).enqueue(user_id=7)
        caller.rollback()

        assert jobs() == []

    def test_an_exception_in_the_block_leaves_no_job(
        self, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False)

        def work() -> None:
            with caller.transaction():
                welcome.using(connection=caller).enqueue(user_id=7)
                raise KeyError

        with pytest.raises(KeyError):
            work()
        caller.rollback()

        assert jobs() == []

    def test_a_savepoint_that_is_rolled_back_takes_its_job_along(
        self, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False)

        welcome.using(connection=caller).enqueue(user_id=1)
        with caller.transaction(force_rollback=True):
            welcome.using(connection=caller).enqueue(user_id=2)
        caller.commit()

        assert jobs() == [1]

    def test_an_autocommit_connection_commits(
        self, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        welcome.using(connection=connect()).enqueue(user_id=7)

        assert jobs() == [7]

    def test_the_rows_of_a_cursor_stay_the_callers(
        self, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False, row_factory=dict_row)
        cursor = caller.execute("select generate_series(1, 3) as n")

        welcome.using(connection=cursor).enqueue(user_id=7)
        caller.commit()

        assert [row["n"] for row in cursor] == [1, 2, 3]
        assert jobs() == [7]

    def test_many_jobs_are_one_transaction_of_the_caller(
        self, tq: TaskQ, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False)
        requests = [welcome.using(queue="ab"[i % 2]).job(user_id=i) for i in range(5)]

        results = tq.enqueue_many(iter(requests), connection=caller)
        assert jobs() == []
        caller.commit()

        assert [result.created for result in results] == [True] * 5
        assert sorted(jobs()) == [0, 1, 2, 3, 4]

    def test_a_session_that_gets_bytes_for_text_will_do(
        self, tq: TaskQ, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        """As in a database in SQL_ASCII, where psycopg does not know what the bytes mean."""
        caller = connect()
        caller.execute("set client_encoding = 'SQL_ASCII'")

        alone = welcome.using(connection=caller, unique_key="é").enqueue(user_id=1)
        again = welcome.using(connection=caller, unique_key="é").enqueue(user_id=1)
        [many] = tq.enqueue_many([welcome.job(user_id=2)], connection=caller)

        assert (alone.status, again.status, many.status) == ("created", "existed", "created")
        assert jobs() == [1, 2]

    def test_opens_no_savepoint(self, tq: TaskQ, welcome: Any, connect: Callable[..., Connection]) -> None:
        caller = connect(autocommit=False)

        welcome.using(connection=caller).enqueue(user_id=7)
        tq.enqueue_many([welcome.job(user_id=8)], connection=caller)
        [(top, current)] = caller.execute(
            "select pg_current_xact_id()::text, xmin::text from taskq.jobs limit 1"
        ).fetchall()

        assert top == current


class TestErrors:
    def test_of_a_payload_leave_the_transaction_usable(
        self, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False)
        welcome.using(connection=caller).enqueue(user_id=1)

        with pytest.raises(PayloadError):
            welcome.using(connection=caller).enqueue(user_id="2")
        caller.commit()

        assert jobs() == [1]

    def test_of_the_contract_are_ours(self, welcome: Any, connect: Callable[..., Connection]) -> None:
        caller = connect(autocommit=False)

        with pytest.raises(InvalidInput, match="headers") as caught:
            welcome.using(connection=caller, headers={"x": "y" * 9000}).enqueue(user_id=7)
        assert isinstance(caught.value.__cause__, psycopg.Error)

    def test_of_the_driver_pass_unchanged(self, welcome: Any, connect: Callable[..., Connection]) -> None:
        caller = connect(autocommit=False)
        with pytest.raises(psycopg.errors.DivisionByZero):
            caller.execute("select 1 / 0")

        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            welcome.using(connection=caller).enqueue(user_id=7)

    def test_of_a_stricter_isolation_are_the_callers(
        self, tq: TaskQ, welcome: Any, connect: Callable[..., Connection], jobs: Callable[[], list[int]]
    ) -> None:
        caller = connect(autocommit=False)
        caller.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        caller.execute("select count(*) from taskq.jobs")

        welcome.using(connection=caller).enqueue(user_id=7)
        caller.commit()

        assert jobs() == [7]

    def test_of_a_closed_connection_pass_unchanged(
        self, welcome: Any, connect: Callable[..., Connection]
    ) -> None:
        caller = connect()
        caller.close()

        with pytest.raises(psycopg.OperationalError, match="closed"):
            welcome.using(connection=caller).enqueue(user_id=7)


def test_a_duplicate_waits_for_the_transaction_that_holds_the_key(
    tq: TaskQ,
    welcome: Any,
    connect: Callable[..., Connection],
    jobs: Callable[[], list[int]],
) -> None:
    holder, other = connect(autocommit=False), connect(autocommit=False)
    welcome.using(connection=holder, unique_key="k").enqueue(user_id=1)
    other.execute("set local lock_timeout = '50ms'")

    with pytest.raises(psycopg.errors.LockNotAvailable):
        welcome.using(connection=other, unique_key="k").enqueue(user_id=2)
    holder.rollback()
    other.rollback()
    result = welcome.using(connection=other, unique_key="k").enqueue(user_id=2)
    other.commit()

    assert result.created
    assert jobs() == [2]


class TestAlwaysNotifies:
    @pytest.fixture
    def listener(self, tq: TaskQ) -> Iterator[Any]:
        made = tq.database.listen("taskq-test-listener")
        yield made
        made.close()

    @pytest.mark.parametrize("autocommit", [False, True])
    def test_on_a_connection_of_the_callers(
        self, tq: TaskQ, welcome: Any, connect: Callable[..., Connection], listener: Any, autocommit: bool
    ) -> None:
        caller = connect(autocommit=autocommit)

        welcome.using(connection=caller, queue="one").enqueue(user_id=7)
        caller.commit()
        assert listener.wait(10) == {"one"}

        tq.enqueue_many([welcome.using(queue="many").job(user_id=7)], connection=caller)
        caller.commit()
        assert listener.wait(10) == {"many"}

    def test_but_not_on_our_own_when_nobody_sleeps(
        self, tq: TaskQ, welcome: Any, connect: Callable[..., Connection], listener: Any
    ) -> None:
        welcome.using(queue="quiet").enqueue(user_id=7)
        welcome.using(connection=connect(), queue="loud").enqueue(user_id=7)

        assert listener.wait(10) == {"loud"}


HOSTILE = """
create schema evil;
create domain evil.text as int check (value = 42);
create domain evil.jsonb as int check (value = 42);
create domain evil.int4 as boolean;
create domain evil.interval as int;
create function evil.minus(timestamptz, timestamptz) returns int language sql as 'select 1';
create operator evil.- (leftarg = timestamptz, rightarg = timestamptz, function = evil.minus);
set search_path = evil, pg_catalog;
set datestyle = 'SQL, DMY';
set intervalstyle = 'sql_standard';
set timezone = 'Asia/Kolkata';
"""


@pytest.mark.own_database
def test_hostile_settings_of_the_session_change_nothing(
    tq: TaskQ, welcome: Any, connect: Callable[..., Connection]
) -> None:
    caller = connect()
    caller.execute(HOSTILE)

    one = welcome.using(connection=caller, scheduled_at=NOON, backoff=90061.5, headers={"a": 1}).enqueue(7)
    delayed = welcome.using(connection=caller, delay=90).enqueue(user_id=7)
    [many] = tq.enqueue_many(
        [welcome.using(scheduled_at=NOON, backoff=90061.5, headers={"a": 1}).job(7)], connection=caller
    )

    for result in (one, many):
        job = tq.get(result)
        assert (job.payload, job.headers) == ({"user_id": 7}, {"a": 1})
        assert job.scheduled_at == NOON
        assert job.backoff == timedelta(seconds=90061.5)
    job = tq.get(delayed)
    assert job.scheduled_at is not None
    assert job.scheduled_at - job.created_at == timedelta(seconds=90)


class TestSQLAlchemy:
    def test_a_job_of_a_connection_comes_with_its_commit(
        self, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        with engine.connect() as caller:
            result = welcome.using(connection=caller, scheduled_at=NOON, delay=None).enqueue(user_id=7)
            assert result.created
            assert jobs() == []
            caller.commit()

        assert jobs() == [7]

    def test_a_job_of_a_session_comes_with_its_commit(
        self, tq: TaskQ, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        with orm.Session(engine) as session:
            session.execute(sqlalchemy.text("create temporary table orders (id int)"))
            welcome.using(connection=session).enqueue(user_id=1)
            tq.enqueue_many([welcome.job(user_id=2)], connection=session)
            assert jobs() == []
            session.commit()
            welcome.using(connection=session).enqueue(user_id=3)
            session.rollback()

        assert jobs() == [1, 2]

    def test_a_session_that_gets_bytes_for_text_will_do(
        self, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        with engine.connect() as caller:
            caller.execute(sqlalchemy.text("set client_encoding = 'SQL_ASCII'"))
            result = welcome.using(connection=caller).enqueue(user_id=7)
            caller.commit()

        assert result.status == "created"
        assert jobs() == [7]

    def test_a_savepoint_that_is_rolled_back_takes_its_job_along(
        self, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        with orm.Session(engine) as session:
            welcome.using(connection=session).enqueue(user_id=1)
            savepoint = session.begin_nested()
            welcome.using(connection=session).enqueue(user_id=2)
            savepoint.rollback()
            with session.begin_nested():
                welcome.using(connection=session).enqueue(user_id=3)
            session.commit()

        assert jobs() == [1, 3]

    def test_an_exception_in_the_block_leaves_no_job(
        self, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        def work() -> None:
            with engine.begin() as caller:
                welcome.using(connection=caller).enqueue(user_id=7)
                raise KeyError

        with pytest.raises(KeyError):
            work()

        assert jobs() == []

    def test_an_autocommit_connection_commits(
        self, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as caller:
            welcome.using(connection=caller).enqueue(user_id=7)
            assert jobs() == [7]

    def test_errors_of_a_payload_leave_the_transaction_usable(
        self, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        with orm.Session(engine) as session:
            welcome.using(connection=session).enqueue(user_id=1)
            with pytest.raises(PayloadError):
                welcome.using(connection=session).enqueue(user_id="2")
            session.commit()

        assert jobs() == [1]

    def test_a_job_of_a_scoped_session_comes_with_its_commit(
        self, welcome: Any, engine: sqlalchemy.Engine, jobs: Callable[[], list[int]]
    ) -> None:
        scoped = orm.scoped_session(orm.sessionmaker(engine))

        welcome.using(connection=scoped).enqueue(user_id=7)
        scoped.commit()
        scoped.remove()

        assert jobs() == [7]

    def test_errors_of_the_contract_are_ours_and_others_sqlalchemys(
        self, welcome: Any, engine: sqlalchemy.Engine
    ) -> None:
        with engine.connect() as caller:
            with pytest.raises(InvalidInput, match="headers"):
                welcome.using(connection=caller, headers={"x": "y" * 9000}).enqueue(user_id=7)
            with pytest.raises(sqlalchemy.exc.DBAPIError):
                welcome.using(connection=caller).enqueue(user_id=7)

    def test_an_engine_is_no_connection(self, welcome: Any, engine: sqlalchemy.Engine) -> None:
        with pytest.raises(ConfigError, match="hand in a Connection or a Session"):
            welcome.using(connection=engine).enqueue(user_id=7)

    def test_another_database_is_refused(self, welcome: Any) -> None:
        engine = sqlalchemy.create_engine("sqlite://")
        with engine.connect() as caller, pytest.raises(ConfigError, match="driver 'pysqlite'"):
            welcome.using(connection=caller).enqueue(user_id=7)
        engine.dispose()


def test_psycopg2_connections_and_cursors_serve_too(
    tq: TaskQ, welcome: Any, dsn: str, psycopg2: Any, jobs: Callable[[], list[int]]
) -> None:
    from psycopg2.extras import RealDictCursor

    caller = psycopg2.connect(dsn, cursor_factory=RealDictCursor)
    try:
        welcome.using(connection=caller, delay=1.5, scheduled_at=None).enqueue(user_id=1)
        welcome.using(connection=caller.cursor()).enqueue(user_id=2)
        tq.enqueue_many([welcome.using(scheduled_at=NOON).job(user_id=3)], connection=caller)
        with pytest.raises(PayloadError):
            welcome.using(connection=caller).enqueue(user_id="4")
        assert jobs() == []
        caller.commit()
        with pytest.raises(InvalidInput):
            welcome.using(connection=caller, headers={"x": "y" * 9000}).enqueue(user_id=7)
    finally:
        caller.close()

    assert jobs() == [1, 2, 3]
