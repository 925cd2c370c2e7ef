"""Which database: arguments, environment, and what is never shown."""

# Scenarios B79, B80.

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from kit.command import InProcess
from taskq_sync import ConfigError, DatabaseUnavailable, TaskQ
from taskq_sync.clock import Deadline
from taskq_sync.db.config import DatabaseConfig, is_configured, read_config


def parameters(config: DatabaseConfig, name: str = "taskq-x", **more: Any) -> dict[str, Any]:
    return conninfo_to_dict(config.conninfo(name, Deadline.after(5), **more))


class TestEnvironment:
    def test_is_read_where_there_is_no_argument(self) -> None:
        environ = {
            "TASKQ_DSN": "dbname=a",
            "DATABASE_URL": "dbname=b",
            "TASKQ_SCHEMA": "jobs",
            "TASKQ_POOLED": "yes",
            "TASKQ_LISTEN_DSN": "dbname=c",
        }
        config = read_config(environ=environ)

        assert (config.dsn, config.schema, config.pooled, config.listen_dsn) == (
            "dbname=a",
            "jobs",
            True,
            "dbname=c",
        )

    def test_gives_way_to_arguments(self) -> None:
        environ = {"TASKQ_DSN": "dbname=a", "TASKQ_SCHEMA": "jobs", "TASKQ_POOLED": "1"}
        config = read_config("dbname=z", schema="mine", pooled=False, environ=environ)

        assert (config.dsn, config.schema, config.pooled) == ("dbname=z", "mine", False)

    def test_without_anything_leaves_all_to_libpq(self) -> None:
        config = read_config(environ={})

        assert (config.dsn, config.schema, config.pooled, config.listen_dsn) == ("", "taskq", False, None)

    def test_takes_the_url_of_the_platform(self) -> None:
        assert read_config(environ={"DATABASE_URL": "postgres://u@h/d"}).target == "u@h/d"

    def test_refuses_a_flag_that_is_none(self) -> None:
        with pytest.raises(ConfigError, match="TASKQ_POOLED must be 1 or 0, it is 'maybe'"):
            read_config(environ={"TASKQ_POOLED": "maybe"})

    @pytest.mark.parametrize("name", ["TASKQ_DSN", "DATABASE_URL", "PGHOST", "PGSERVICE", "PGDATABASE"])
    def test_names_a_database(self, name: str) -> None:
        assert is_configured({name: "x"})
        assert not is_configured({name: "", "HOME": "/"})


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that names no database, and no server where libpq looks by itself."""
    for name in [*os.environ]:
        if name.startswith(("PG", "TASKQ_", "DATABASE_URL")):
            monkeypatch.delenv(name)

    def refuse(*args: object, **options: object) -> None:
        raise DatabaseUnavailable("connection refused")

    monkeypatch.setattr("taskq_sync.db.pool.open_session", refuse)


class TestNamingNone:
    ADVICE = "no database is named: set TASKQ_DSN, DATABASE_URL or the PG. variables, or .*taskq-sync dev"

    def test_is_told_to_a_program(self, unnamed: None) -> None:
        with pytest.raises(DatabaseUnavailable, match=self.ADVICE):
            TaskQ(timeout=0.1).get(1)

    def test_is_told_to_a_command(self, unnamed: None) -> None:
        done = InProcess().run("status")
        assert done.code == 69
        assert re.search(self.ADVICE, done.err)

    def test_is_no_advice_for_who_names_one(self, unnamed: None) -> None:
        with pytest.raises(DatabaseUnavailable) as caught:
            TaskQ("host=nowhere", timeout=0.1).get(1)
        assert caught.value.hint is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schema": "pg_x"}, "cannot be the name of the schema"),
        ({"schema": "a b"}, "cannot be the name of the schema"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"timeout": float("nan")}, "timeout must be positive"),
        ({"pool_size": 0}, "pool_size must be at least 1"),
        ({"dsn": "postgresql://u:s3cret@[h/d"}, "no connection string"),
        ({"dsn": "nonsense s3cret"}, "no connection string"),
        ({"dsn": "postgresql://u:p@s3cret@host/d"}, "'@' in its host"),
        ({"dsn": "dbname=a", "listen_dsn": "s3cret"}, "no connection string"),
    ],
)
def test_refuses_by_a_message_without_the_password(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        DatabaseConfig(**settings)

    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


class TestConnectionString:
    @pytest.mark.parametrize(
        "dsn",
        [
            "postgresql:///db?host=/run/sock",
            "postgresql://u@%2Frun%2Fsock/db",
            "postgresql://u@[::1]:5433/db?sslmode=require",
            "host=a,b port=1,2 target_session_attrs=read-write",
            "service=jobs",
            "options='-c search_path=x'",
            "postgresql://u:p%40ss%2520w%3Aor%2Fd%23%3F%26%3D'%5C\"%C3%A9@h/d",
        ],
    )
    @pytest.mark.parametrize("listening", [False, True])
    def test_keeps_every_part_of_the_dsn(self, dsn: str, listening: bool) -> None:
        got = parameters(DatabaseConfig(dsn=dsn), listening=listening)

        assert {**got, **conninfo_to_dict(dsn)} == got

    def test_keeps_a_strange_password(self) -> None:
        url = "postgresql://u:p%40ss%2520w%3Aor%2Fd%23%3F%26%3D'%5C\"%C3%A9@h/d"

        assert parameters(DatabaseConfig(dsn=url))["password"] == "p@ss%20w:or/d#?&='\\\"é"

    def test_adds_what_the_dsn_leaves_open(self) -> None:
        got = parameters(DatabaseConfig(dsn="host=h keepalives_idle=99"))

        assert got["keepalives_idle"] == "99"
        assert got["tcp_user_timeout"] == "30000"
        assert got["application_name"] == "taskq-x"
        assert got["client_encoding"] == "utf8"

    def test_leaves_the_name_of_the_application_to_who_gives_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert parameters(DatabaseConfig(dsn="application_name=shop"))["application_name"] == "shop"
        monkeypatch.setenv("PGAPPNAME", "shop")
        assert "application_name" not in parameters(DatabaseConfig(dsn="host=h"))

    def test_bounds_the_connecting_by_the_deadline(self) -> None:
        assert parameters(DatabaseConfig(dsn="host=h"))["connect_timeout"] == "4"  # a moment has passed
        assert parameters(DatabaseConfig(dsn="host=a,b"))["connect_timeout"] == "2"
        assert parameters(DatabaseConfig(dsn="host=h connect_timeout=60"))["connect_timeout"] == "4"
        assert parameters(DatabaseConfig(dsn="host=h connect_timeout=3"))["connect_timeout"] == "3"

    def test_understands_the_url_of_sqlalchemy(self) -> None:
        got = parameters(DatabaseConfig(dsn="postgresql+psycopg2://u@h/d"))

        assert (got["user"], got["host"], got["dbname"]) == ("u", "h", "d")

    def test_for_listening_is_that_of_the_direct_connection(self) -> None:
        config = DatabaseConfig(dsn="host=pooler", pooled=True, listen_dsn="host=direct")

        assert parameters(config)["host"] == "pooler"
        assert parameters(config, listening=True)["host"] == "direct"


def test_knows_whether_anything_can_listen() -> None:
    assert DatabaseConfig().can_listen
    assert not DatabaseConfig(pooled=True).can_listen
    assert DatabaseConfig(pooled=True, listen_dsn="host=h").can_listen


def test_no_repr_shows_a_password() -> None:
    tq = TaskQ("postgresql://u:s3cret@h/d", listen_dsn="password=s3cret")

    for thing in (tq, tq.database, tq.database.config):
        assert "s3cret" not in repr(thing)
    assert repr(tq) == "TaskQ(u@h/d, schema='taskq')"
