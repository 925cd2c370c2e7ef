"""Installing the schema and bringing it up to date."""

# Scenarios B73, B74, B75, B77.

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from kit.roles import low_role
from kit.waiting import wait_until_blocked
from taskq_sync.db.schema import MIN_CLIENT, Schema, SchemaState
from taskq_sync.db.sqlfiles import read_files, shipped_files
from taskq_sync.errors import ConfigError, SchemaError
from taskq_sync.version import __version__

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def owner(empty_dsn: str) -> Iterator[Connection]:
    """A connection to a database without anything, as its owner."""
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def tree(tmp_path: Path, sql_root: Path) -> Path:
    """A copy of the SQL files that a test may change."""
    return Path(shutil.copytree(sql_root, tmp_path / "sql"))


def written(conn: Connection, schema: str = "taskq") -> list[tuple[Any, ...]]:
    """Which transaction wrote what of the schema: equal lists mean that nothing was written between."""
    return conn.execute(
        """
        select 'routine', p.oid::regprocedure::text, p.xmin::text from pg_proc p
        where pronamespace = to_regnamespace(quote_ident(%(schema)s))
        union all
        select 'relation', c.relname, c.xmin::text from pg_class c
        where relnamespace = to_regnamespace(quote_ident(%(schema)s)) order by 1, 2
        """,
        {"schema": schema},
    ).fetchall()


def signatures(conn: Connection, name: str) -> list[str]:
    return [
        row[0]
        for row in conn.execute(
            """
            select pg_get_function_identity_arguments(oid) from pg_proc
            where pronamespace = 'taskq'::regnamespace and proname = %s
            """,
            (name,),
        )
    ]


def test_installs_into_an_empty_database(owner):
    schema = Schema()
    assert schema.state(owner) == SchemaState(exists=False)
    done = schema.migrate(owner)
    assert (done.changed, done.before, done.version) == (True, None, __version__)
    state = schema.state(owner)
    assert (state.version, state.min_client, state.up_to_date) == (__version__, MIN_CLIENT, True)
    assert owner.execute("select status from taskq.enqueue('q', 't')").fetchone() == ("created",)


def test_a_second_run_writes_nothing(owner):
    Schema().migrate(owner)
    before = written(owner)
    done = Schema().migrate(owner)
    assert (done.changed, done.before) == (False, __version__)
    assert written(owner) == before


def test_twenty_at_once_end_well_and_one_of_them_works(empty_dsn):
    def migrate(_: int) -> bool:
        with psycopg.connect(empty_dsn, autocommit=True) as conn:
            return Schema().migrate(conn).changed

    with ThreadPoolExecutor(20) as pool:
        changed = list(pool.map(migrate, range(20)))
    assert sorted(changed) == [False] * 19 + [True]
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert conn.execute("select count(*) from taskq.settings").fetchone() == (1,)


def test_waits_for_another_migration_beyond_the_timeouts_of_the_role(empty_dsn, owner):
    """A role's limits are for the statements of an application: they may not cut a migration off."""
    impatient = "-c lock_timeout=1ms"
    owner.execute("begin; select pg_advisory_xact_lock(hashtextextended('taskq.migrate', 0))")
    with psycopg.connect(empty_dsn, autocommit=True, options=impatient) as other:
        thread = Thread(target=Schema().migrate, args=(other,))
        thread.start()
        with psycopg.connect(empty_dsn, autocommit=True) as watcher:
            wait_until_blocked(watcher, other.info.backend_pid)
        owner.execute("rollback")
        thread.join()
    assert Schema().state(owner).up_to_date


def test_needs_a_connection_in_autocommit(empty_dsn):
    with psycopg.connect(empty_dsn) as conn, pytest.raises(ConfigError, match="autocommit"):
        Schema().migrate(conn)


def test_a_file_that_fails_is_named_and_leaves_nothing(owner, tree):
    (tree / "views" / "zoom.sql").write_text("create view taskq.zoom as select nothing_such")
    with pytest.raises(SchemaError, match=r"sql/views/zoom\.sql.*nothing_such"):
        Schema(files=read_files(tree)).migrate(owner)
    assert Schema().state(owner) == SchemaState(exists=False)


class TestSchemasAndRoles:
    def test_two_schemas_live_side_by_side(self, owner):
        Schema().migrate(owner)
        Schema("My-Queue").migrate(owner)
        Schema("my-queue").migrate(owner)
        owner.execute("""select "My-Queue".enqueue('q', 't')""")
        counts = [
            owner.execute(f"select count(*) from {name}.jobs").fetchone()
            for name in ("taskq", '"My-Queue"', '"my-queue"')
        ]
        assert counts == [(0,), (1,), (0,)]

    @pytest.mark.parametrize("name", ["My-Queue", "user", "1q", "x.job", "a" * 48])
    def test_nothing_in_another_schema_speaks_of_taskq(self, owner, name):
        """Whatever refers to the schema is rewritten, and the second run finds the first."""
        Schema(name).migrate(owner)
        assert Schema(name).migrate(owner).changed is False
        bodies = owner.execute(
            """
            select proname from pg_proc where pronamespace <> 'pg_catalog'::regnamespace
            and pg_get_functiondef(oid) ~ '\\mtaskq\\.' and prokind in ('f', 'p')
            """
        ).fetchall()
        assert bodies == []
        assert owner.execute("select to_regnamespace('taskq')").fetchone() == (None,)

    def test_installs_into_a_schema_made_beforehand(self, owner, empty_dsn):
        """The role owns the schema and may not create in the database."""
        with low_role(owner, empty_dsn, prefix="taskq_low") as role:
            owner.execute(f"create schema taskq authorization {role.name}")
            with role.connect() as conn:
                assert Schema().state(conn) == SchemaState(exists=True)
                assert Schema().migrate(conn).changed
                assert Schema().migrate(conn).changed is False

    def test_says_what_a_role_without_rights_may_do(self, owner, empty_dsn):
        with (
            low_role(owner, empty_dsn, prefix="taskq_low") as role,
            role.connect() as conn,
            pytest.raises(SchemaError, match=f"create schema taskq authorization {role.name}"),
        ):
            Schema().migrate(conn)

    def test_leaves_a_schema_of_somebody_else_alone(self, owner):
        owner.execute("create schema taskq; create table taskq.orders (id int)")
        with pytest.raises(SchemaError, match=r"holds table orders.*choose another name with --schema"):
            Schema().migrate(owner)
        assert written(owner) == written(owner)
        assert [row[1] for row in written(owner)] == ["orders"]

    def test_a_runtime_role_asks_for_the_version_without_reading_tables(self, owner, empty_dsn):
        Schema().migrate(owner)
        with low_role(owner, empty_dsn, prefix="taskq_low") as role, role.connect() as conn:
            with pytest.raises(SchemaError, match=f"role {role.name} may not use schema taskq"):
                Schema().check_client(conn)
            owner.execute(f"grant usage on schema taskq to {role.name}")
            with pytest.raises(SchemaError, match="permission denied for function schema_version"):
                Schema().check_client(conn)
            owner.execute(f"grant execute on function taskq.schema_version to {role.name}")
            assert Schema().check_client(conn).up_to_date


class TestVersions:
    def test_a_client_refuses_a_missing_schema(self, owner):
        with pytest.raises(SchemaError, match=r"has no schema Jobs.*taskq-sync migrate --schema Jobs"):
            Schema("Jobs").check_client(owner)

    def test_a_client_refuses_only_below_min_client(self, owner):
        Schema().migrate(owner)
        owner.execute("update taskq.settings set version = '99.1'")
        assert Schema().check_client(owner).up_to_date is False
        owner.execute("update taskq.settings set min_client = '98.0.1'")
        with pytest.raises(SchemaError, match=r"needs taskq-sync 98\.0\.1 or newer"):
            Schema().check_client(owner)
        assert Schema(version="98.0.1").check_client(owner).min_client == "98.0.1"

    def test_refuses_to_go_backwards(self, owner):
        Schema(version="0.10.0").migrate(owner)
        before = written(owner)
        with pytest.raises(SchemaError, match=r"version 0\.10\.0, newer than this taskq-sync 0\.9\.1"):
            Schema(version="0.9.1").migrate(owner)
        assert written(owner) == before

    def test_a_new_version_of_the_same_files_is_noted(self, owner):
        Schema(version="0.1.0").migrate(owner)
        done = Schema(version="0.1.1").migrate(owner)
        assert (done.changed, done.before, done.version) == (True, "0.1.0", "0.1.1")
        assert Schema(version="0.1.1").state(owner).version == "0.1.1"


class TestChangedFiles:
    @pytest.fixture
    def migrate(self, owner: Connection, tree: Path) -> Callable[..., None]:
        """Install the shipped files, then apply the changed ones."""
        Schema().migrate(owner)

        def apply(**changed: str) -> None:
            for path, text in changed.items():
                file = tree / (path.replace("__", "/") + ".sql")
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
            Schema(files=read_files(tree)).migrate(owner)

        return apply

    def test_replaces_functions_and_keeps_tables_and_grants(self, owner, migrate):
        owner.execute("select taskq.enqueue('q', 't')")
        owner.execute("grant execute on function taskq.clip to pg_monitor")
        clip = shipped("functions/internal/clip.sql")
        migrate(functions__internal__clip=clip.replace("as $$", "as $$ -- better\n"))
        kept = "select has_function_privilege('pg_monitor', oid, 'execute'), prosrc from pg_proc where proname = 'clip'"
        may, source = owner.execute(kept).fetchone()
        assert may
        assert source.startswith(" -- better")
        assert owner.execute("select count(*) from taskq.jobs").fetchone() == (1,)

    def test_a_new_function_is_closed_to_the_public(self, owner, migrate):
        migrate(
            functions__observer__fresh="create function taskq.fresh() returns int language sql as 'select 1'"
        )
        assert owner.execute(
            "select has_function_privilege('public', 'taskq.fresh()', 'execute')"
        ).fetchone() == (False,)

    def test_an_added_parameter_leaves_one_signature(self, owner, migrate):
        one = "create or replace function taskq.twice(p_a int) returns int language sql as 'select 2 * p_a'"
        migrate(functions__observer__twice=one)
        migrate(functions__observer__twice=one.replace("p_a int", "p_a int, p_b int = 0"))
        assert signatures(owner, "twice") == ["p_a integer, p_b integer"]
        assert owner.execute("select taskq.twice(4)").fetchone() == (8,)

    def test_an_added_parameter_leaves_one_signature_of_a_function_with_a_comment(self, owner, migrate):
        """The comment names the function alone, as all of them do, and of two signatures it could mean either."""
        one = (
            "create or replace function taskq.twice(p_a int) returns int language sql as 'select 2 * p_a';"
            "comment on function taskq.twice is 'Twice.';"
        )
        migrate(functions__internal__twice=one)
        migrate(functions__internal__twice=one.replace("p_a int", "p_a int, p_b int = 0"))
        assert signatures(owner, "twice") == ["p_a integer, p_b integer"]
        assert owner.execute("select taskq.twice(4)").fetchone() == (8,)

    def test_a_changed_result_replaces_the_function(self, owner, migrate):
        one = "create or replace function taskq.pair() returns table (a int) language sql as 'select 1'"
        migrate(functions__observer__pair=one)
        migrate(functions__observer__pair=one.replace("(a int)", "(a int, b int)").replace("1'", "1, 2'"))
        assert owner.execute("select a, b from taskq.pair()").fetchone() == (1, 2)

    def test_leaves_routines_alone_that_the_library_never_declared(self, owner, migrate):
        owner.execute("create function taskq.mine() returns int language sql as 'select 7'")
        migrate(
            functions__observer__fresh="create function taskq.fresh() returns int language sql as 'select 1'"
        )
        assert owner.execute("select taskq.mine()").fetchone() == (7,)

    def test_a_lock_it_cannot_get_names_its_holder_and_leaves_all_as_it_was(self, owner, empty_dsn, migrate):
        view = "create or replace view taskq.zoom as select 1 as a"
        migrate(views__zoom=view)
        before = written(owner)
        owner.execute("set lock_timeout = '10ms'")
        with psycopg.connect(empty_dsn, application_name="report") as reader:
            reader.execute("select * from taskq.zoom")
            with pytest.raises(
                SchemaError, match=rf"held up by pid {reader.info.backend_pid} \(report, idle in trans"
            ):
                migrate(views__zoom=view.replace("1 as a", "1 as a, 2 as b"))
            assert written(owner) == before
        migrate(views__zoom=view.replace("1 as a", "1 as a, 2 as b"))
        assert owner.execute("select b from taskq.zoom").fetchone() == (2,)


class TestMigrations:
    def test_changes_an_old_schema_once_and_in_order(self, owner, tree):
        Schema(files=shipped_files(), version="0.1.0").migrate(owner)
        owner.execute("select taskq.enqueue('q', 't')")
        (tree / "migrations").mkdir()
        (tree / "migrations" / "0001_note.sql").write_text("alter table taskq.jobs add column note text")
        (tree / "migrations" / "0002_fill.sql").write_text("update taskq.jobs set note = 'old'")
        Schema(files=read_files(tree), version="0.2.0").migrate(owner)
        assert owner.execute("select note from taskq.jobs").fetchone() == ("old",)
        (tree / "migrations" / "0003_more.sql").write_text("update taskq.jobs set note = note || 'er'")
        for _ in range(2):
            Schema(files=read_files(tree), version="0.3.0").migrate(owner)
        assert owner.execute("select note from taskq.jobs").fetchone() == ("older",)
        assert Schema(files=read_files(tree), version="0.3.0").state(owner).migration == 3

    def test_a_new_schema_starts_at_the_latest(self, owner, tree):
        """The table files are the current definition: the migrations are in them."""
        (tree / "migrations").mkdir()
        (tree / "migrations" / "0001_broken.sql").write_text("this would fail")
        schema = Schema(files=read_files(tree))
        schema.migrate(owner)
        assert schema.state(owner).migration == 1


class TestScript:
    def test_installs_what_migrate_installs(self, owner, databases):
        owner.execute(Schema("My-Queue").script().encode())
        assert Schema("My-Queue").state(owner).up_to_date
        assert Schema("My-Queue").migrate(owner).changed is False

    def test_is_one_transaction(self):
        script = Schema().script()
        statements = [line for line in script.splitlines() if line in ("begin;", "commit;")]
        assert statements == ["begin;", "commit;"]
        assert script.rstrip().endswith("commit;")


def shipped(path: str) -> str:
    return next(file.text for file in shipped_files().functions if file.path == path)
