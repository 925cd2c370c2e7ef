"""Who may do what, and that nobody can steer a function that runs with the rights of the owner.

That every function of the contract runs on a path of its own and PUBLIC may call none is watched in tests/house.
"""

# Scenarios B76, B77.

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from psycopg import sql as query

from kit.contract import Contract, refused
from kit.roles import Role
from taskq_sync.db.sqlfiles import shipped_files

#: One call of every function that a role may be given, on a job that runs. Literals only: an operator here would
#: be the caller's own.
CALLS = {
    "age": "age()",
    "announce": "announce(p_worker_id => 'w', p_info => '{{}}')",
    "attempt_state": "attempt_state(p_job_id => {job}, p_attempt_id => {attempt})",
    "awake": "awake(p_worker_id => 'w')",
    "cancel_attempt": "cancel_attempt(p_job_id => {job}, p_attempt_id => {attempt})",
    "cancel_job": "cancel_job(p_job_id => {job}, p_actor => 'ann', p_reason => 'enough')",
    "check_integrity": "check_integrity()",
    "claim": "claim(p_queues => '{{q}}', p_worker_id => 'w', p_limit => 9)",
    "clock": "clock()",
    "complete": "complete(p_job_id => {job}, p_attempt_id => {attempt}, p_result => '7')",
    "enqueue": "enqueue(p_queue => 'q', p_task => 't', p_payload => '{{}}', p_unique_key => 'u', p_delay => '0')",
    "enqueue_many": """enqueue_many(p_queue => 'q', p_jobs => '[{{"task": "t", "unique_key": "u", "delay": 5}}]')""",
    "expire_ttl": "expire_ttl()",
    "fail": "fail(p_job_id => {job}, p_attempt_id => {attempt}, p_error => 'boom', p_progress => '7')",
    "get_job": "get_job(p_job_id => {job})",
    "heartbeat": """heartbeat(p_worker_id => 'w', p_job_ids => '{{{job}}}', p_attempt_ids => '{{{attempt}}}',
        p_progress => '{{"{job}": 7}}')""",
    "hold_singleton": "hold_singleton(p_name => 'n')",
    "housekeep": "housekeep()",
    "job_history": "job_history(p_job_id => {job})",
    "list_jobs": "list_jobs(p_queue => 'q', p_task => 't', p_status => 'running')",
    "pause_queue": "pause_queue(p_queue => 'q')",
    "poll_hint": "poll_hint(p_queues => '{{q}}')",
    "prune": "prune()",
    "purge_queue": "purge_queue(p_queue => 'q', p_limit => 9)",
    "queue_stats": "queue_stats()",
    "redrive": "redrive(p_job_id => {job})",
    "release": "release(p_job_id => {job}, p_attempt_id => {attempt}, p_delay => '5 s')",
    "resume_queue": "resume_queue(p_queue => 'q')",
    "schema_version": "schema_version()",
    "set_concurrency_limit": "set_concurrency_limit(p_key => 'k', p_max_running => 2)",
    "set_queue": "set_queue(p_queue => 'q', p_max_attempts => 3, p_reset => '{{ttl}}')",
    "set_strict_queues": "set_strict_queues(p_strict => false)",
    "settle": """settle(p_worker_id => 'w', p_settlements =>
        '[{{"job_id": {job}, "attempt_id": {attempt}, "verb": "snooze", "delay": 5}}]')""",
    "sleep_until": "sleep_until(p_worker_id => 'w', p_queues => '{{q}}', p_wakes_at => '2030-01-01 00:00+00')",
    "snooze": "snooze(p_job_id => {job}, p_attempt_id => {attempt}, p_delay => '5 s', p_progress => '7')",
    "stop_worker": "stop_worker(p_worker_id => 'stop me')",
    "take_back": "take_back()",
    "workers": "workers()",
}  # fmt: skip


@pytest.fixture
def role(make_role: Callable[[], Role], sql: Contract) -> Role:
    """A login that may use the schema and execute nothing in it."""
    role = make_role()
    sql.run(f"grant usage on schema taskq to {role.name}")
    return role


@pytest.fixture
def low(role: Role) -> Iterator[Contract]:
    """The functions as that role."""
    with closing(role.connect()) as conn:
        yield Contract(conn)


@pytest.fixture
def granted(role: Role, low: Contract, sql: Contract) -> Contract:
    """The functions as that role, after it was given all of the contract."""
    for function in CALLS:
        sql.run(f"grant execute on function taskq.{function} to {role.name}")
    return low


def _call(sql: Contract, function: str, queue: str = "q") -> str:
    """Return the call, on a job of its own that runs."""
    attempt = sql.new_attempt(queue=queue)
    sql.announce(worker_id="stop me", info={"state": "running"})
    return "select * from taskq." + CALLS[function].format(
        job=attempt["job_id"], attempt=attempt["attempt_id"]
    )


def test_the_calls_are_those_of_the_contract() -> None:
    contract = {file.name for file in shipped_files().functions if "/internal/" not in file.path}
    assert CALLS.keys() == contract | {"clock"}


@pytest.mark.parametrize("function", CALLS)
def test_runs_for_a_role_that_may_execute_it_alone(
    sql: Contract, low: Contract, role: Role, function: str
) -> None:
    call = _call(sql, function)

    with refused("42501", f"permission denied for function {function}"):
        low.rows(call)
    sql.run(f"grant execute on function taskq.{function} to {role.name}")
    low.rows(call)


def test_nothing_is_reached_without_usage_of_the_schema(make_role: Callable[[], Role], sql: Contract) -> None:
    role = make_role()
    sql.run(f"grant execute on all functions in schema taskq to {role.name}")
    with closing(role.connect()) as conn, refused("42501", "permission denied for schema taskq"):
        Contract(conn).new_job()


def test_every_function_does_not_open_any_table(sql: Contract, granted: Contract) -> None:
    """All tables, views and sequences stay closed to a role that may execute the whole contract."""
    sql.new_job()
    relations = sql.rows(
        "select relname, relkind from pg_class "
        "where relnamespace = 'taskq'::regnamespace and relkind in ('r', 'v', 'S')"
    )
    statements = {
        "r": [
            "select from taskq.{}",
            "delete from taskq.{}",
            "truncate taskq.{}",
            "insert into taskq.{} default values",
        ],
        "v": ["select from taskq.{}"],
        "S": ["select nextval('taskq.{}')", "select last_value from taskq.{}"],
    }
    assert len(relations) > 15

    for relation in relations:
        for statement in statements[relation["relkind"]]:
            with refused("42501", "permission denied for "):
                granted.run(statement.format(relation["relname"]))


def test_every_function_does_not_open_what_is_internal(sql: Contract, granted: Contract) -> None:
    internal = {file.name for file in shipped_files().functions if "/internal/" in file.path} - {"clock"}
    allowed = sql.rows(
        "select proname from pg_proc where pronamespace = 'taskq'::regnamespace "
        "and proname = any (%s) and has_function_privilege(%s, oid, 'execute')",
        sorted(internal),
        granted.conn.info.user,
    )
    assert allowed == []


def test_the_public_has_no_right_on_anything(sql: Contract) -> None:
    rights = sql.rows("""
        select 'schema' as what, nspname::text as name, privilege_type from pg_namespace,
          aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a
        where nspname = 'taskq' and a.grantee = 0
        union all
        select 'relation', relname, privilege_type from pg_class,
          aclexplode(coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner))) a
        where relnamespace = 'taskq'::regnamespace and relkind in ('r', 'v', 'S') and a.grantee = 0
        union all
        select 'function', proname, privilege_type from pg_proc,
          aclexplode(coalesce(proacl, acldefault('f', proowner))) a
        where pronamespace = 'taskq'::regnamespace and a.grantee = 0""")
    assert rights == []


def test_only_one_expression_helpers_and_parts_of_claim_have_no_path_of_their_own(sql: Contract) -> None:
    """They have none so that they inline; they run inside functions that have one, as do the parts of each claim."""
    without = sql.rows("""
        select proname from pg_proc
        where pronamespace = 'taskq'::regnamespace
          and not coalesce(proconfig, '{}') @> array['search_path=pg_catalog, pg_temp']
        order by proname""")
    assert [row["proname"] for row in without] == [
        "backoff_delay",
        "check_claim",
        "claim_candidates",
        "clock",
        "fits",
        "job_fault",
        "key_limits",
        "key_lock",
        "limits_lock",
        "order_lock",
        "purge_instant",
        "queue_fault",
        "stamp_policy",
    ]


def test_says_who_enqueued_by_the_login(granted: Contract, sql: Contract) -> None:
    """Not by the owner, as whom the function runs."""
    job_id = granted.new_job()
    assert sql.job(job_id)["enqueued_by"] == granted.conn.info.user


def test_says_who_operated_by_the_login_whatever_actor_is_named(granted: Contract, sql: Contract) -> None:
    granted.pause_queue(queue="q")
    granted.resume_queue(queue="q", actor="postgres")

    assert sql.rows("select actor, session_role from taskq.audit order by id") == [
        {"actor": granted.conn.info.user, "session_role": granted.conn.info.user},
        {"actor": "postgres", "session_role": granted.conn.info.user},
    ]


# -- a hostile schema -------------------------------------------------------------------------------------------

#: Fills the schema `evil` and the temporary one with whatever an unqualified name in a body could be led to.
_EVIL = """
do $do$
declare
  v_body constant text := 'begin raise exception ''steered''; end';
  v_item record;
  v_name text;
begin
  -- a function for every one of PostgreSQL's whose name is a word of our files
  for v_item in
    select p.proname, pg_get_function_identity_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result
    from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.provariadic = 0
      and p.proname = any ({words})
  loop
    begin
      execute format('create function evil.%I(%s) returns %s language plpgsql as %L',
                     v_item.proname, v_item.arguments, v_item.result, v_body);
    exception when feature_not_supported or invalid_function_definition then
      null;  -- plpgsql takes no pseudo-types
    end;
  end loop;

  -- an operator for every one of PostgreSQL's between types that our functions use
  for v_item in
    select o.oprname, o.oprleft::regtype as l, o.oprright::regtype as r, o.oprresult::regtype as result, o.oid
    from pg_operator o
    where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprkind = 'b'
      and o.oprleft = any ({types}::regtype[]) and o.oprright = any ({types}::regtype[])
  loop
    v_name := 'operator_' || v_item.oid;
    execute format('create function evil.%I(%s, %s) returns %s language plpgsql as %L',
                   v_name, v_item.l, v_item.r, v_item.result, v_body);
    execute format('create operator evil.%s (leftarg = %s, rightarg = %s, procedure = evil.%I)',
                   v_item.oprname, v_item.l, v_item.r, v_name);
  end loop;

  execute format('create function evil.look() returns bigint language plpgsql as %L', v_body);
  foreach v_name in array {relations}::text[] loop
    execute format('create table evil.%I (id bigint, queue text, name text, key text, job_id bigint)', v_name);
    execute format('create temporary view %I as select evil.look() as id', v_name);
  end loop;
  foreach v_name in array {functions}::text[] loop
    execute format('create function evil.%I(variadic text[]) returns int language plpgsql as %L', v_name, v_body);
  end loop;
  foreach v_name in array {type_names}::text[] loop
    execute format('create domain evil.%I as pg_catalog.point', v_name);
    execute format('create domain pg_temp.%I as pg_catalog.point', v_name);
  end loop;
end
$do$
"""

_TYPES = [
    *["text", "bigint", "int", "smallint", "boolean", "timestamptz", "interval", "jsonb", "name", "numeric"],
    *["double precision", "oid", "text[]", "bigint[]", "jsonb[]"],
]
_TYPE_NAMES = [
    "text",
    "jsonb",
    "timestamptz",
    "interval",
    "bool",
    "int4",
    "int8",
    "name",
    "regclass",
    "claimed_job",
]

#: Paths a caller may have set; the second is the default.
PATHS = [
    "''",
    '"$user", public',
    "evil, pg_temp, pg_catalog, public",
    "pg_temp, evil, pg_catalog",
    "taskq",
    "taskq, evil, pg_catalog",
]


@pytest.fixture
def hostile(granted: Contract, role: Role, sql: Contract) -> Contract:
    """The functions as the role, which may make schemas and has made a hostile one."""
    files = shipped_files().functions
    names = (
        "select relname from pg_class where relnamespace = 'taskq'::regnamespace and relkind in ('r', 'v')"
    )
    sql.conn.execute(
        query.SQL("grant create on database {} to {}").format(
            query.Identifier(sql.conn.info.dbname), query.Identifier(role.name)
        )
    )
    granted.run("create schema evil")
    granted.conn.execute(
        query.SQL(_EVIL).format(
            words=query.Literal(
                sorted({word for file in files for word in re.findall(r"[a-z_0-9]+", file.text)})
            ),
            types=query.Literal(_TYPES),
            type_names=query.Literal(_TYPE_NAMES),
            relations=query.Literal([row["relname"] for row in sql.rows(names)]),
            functions=query.Literal([file.name for file in files]),
        )
    )
    return granted


def test_the_hostile_schema_would_steer_what_it_can(hostile: Contract) -> None:
    """Else the tests below would prove nothing."""
    hostile.run("set search_path = evil, pg_catalog")
    for steered in (
        "select now()",
        "select 1::bigint = 2::bigint",
        "select octet_length('x')",
        "select store_jobs('x')",
        "select id from jobs",
    ):
        with refused("P0001", "steered"):
            hostile.run(steered)
    hostile.run("set search_path = pg_temp, pg_catalog")
    with refused("22P02", "invalid input syntax for type point"):
        hostile.run("select 'x'::text")


def test_every_function_runs_under_any_path(hostile: Contract, sql: Contract) -> None:
    for number, path in enumerate(PATHS):
        calls = [_call(sql, function, f"{function} {number}") for function in CALLS]
        hostile.run(f"set search_path = {path}")
        for call in calls:
            assert hostile.conn.execute(call).description, path


def test_a_job_lives_its_life_under_any_path(hostile: Contract, sql: Contract) -> None:
    """And nothing of the role's own is read or written."""

    def ask(call: str) -> tuple[object, ...]:
        [row] = hostile.conn.execute(call).fetchall()
        return tuple(row)

    for path in PATHS:
        hostile.run(f"set search_path = {path}")
        status, job_id = ask("select * from taskq.enqueue('mail', 'welcome', '{}', p_unique_key => 'u')")
        again = ask("select * from taskq.enqueue('mail', 'welcome', '{}', p_unique_key => 'u')")
        claimed = ask("select * from taskq.claim('{mail}', 'w')")
        fence = claimed[1]
        beat = ask(f"select state from taskq.heartbeat('w', '{{{job_id}}}', '{{{fence}}}')")
        released = ask(f"select result from taskq.release({job_id}, {fence})")
        fence = ask("select attempt_id from taskq.claim('{mail}', 'w')")[0]
        document = f'[{{"job_id": {job_id}, "attempt_id": {fence}, "verb": "complete", "result": 7}}]'
        settled = ask(f"select result, status from taskq.settle('w', '{document}')")

        assert (status, again, claimed[0]) == ("created", ("existed", job_id), job_id), path
        assert (beat, released, settled) == (("ok",), ("ok",), ("ok", "succeeded")), path
        assert (sql.job(job_id)["attempt_count"], sql.job(job_id)["result"]) == (2, 7), path

    hostile.run("set search_path = pg_catalog")
    for table in ("jobs", "ready", "running", "finished", "attempts", "unique_keys"):
        assert hostile.rows(f"select from evil.{table}") == []


def test_arguments_are_data(granted: Contract, sql: Contract) -> None:
    nasty = """'; drop table taskq.jobs; -- "%s" \\ $1 {0} %%I"""
    job_id = granted.new_job(
        queue=nasty, task=nasty, payload={nasty: nasty}, unique_key=nasty, concurrency_key=nasty
    )
    attempt = granted.take(nasty, worker=nasty)
    granted.set_concurrency_limit(key=nasty, max_running=2, actor=nasty, reason=nasty)
    granted.fail(job_id=job_id, attempt_id=attempt["attempt_id"], error=nasty, retryable=False)

    job = sql.job(job_id)
    stored = [job[name] for name in ("queue", "task", "unique_key", "concurrency_key", "worker_id", "error")]
    assert set(stored) == {nasty}
    assert job["payload"] == {nasty: nasty}
