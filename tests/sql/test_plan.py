"""What the path of a job costs: buffers in proportion to the rows it moves, whatever else waits in the tables."""

# Scenarios B82, B83.

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from attrs import frozen

from kit.contract import Contract, Row
from kit.databases import Databases
from kit.plans import WARM_UP, buffers
from kit.waiting import eventually

BACKLOG = 500_000


@frozen
class Backlog:
    """A database with 1,000,000 queued jobs and 500,000 that have ended.

    Half of the queued ones are due in `big`, the others are in `future` and of a higher priority than its due ones.
    *small* is what claims of 10 and of 100 cost while there was nothing in it but 2,000 jobs. *oldest* is a session
    whose plans were made when it had a dozen, so that reading all of them was cheapest.
    """

    dsn: str
    small: tuple[int, int]
    oldest: Contract


def _fill(sql: Contract, queue: str, rows: int, *, first_priority: int = 0, delay: str = "-1 minute") -> None:
    """Store jobs as enqueue would, over ten priorities."""
    sql.run(
        """
        with job as (
          insert into taskq.jobs (queue, task, payload, priority, max_attempts, backoff, backoff_max, lease,
                                  created_at, enqueued_by)
          select %s, 't', '{}', %s + n %% 10, 5, '30 s', '1 h', '60 s', taskq.clock(), user
          from generate_series(1, %s) as n
          returning id, queue, task, priority, created_at)
        insert into taskq.ready (id, queue, task, priority, scheduled_at)
        select id, queue, task, priority, created_at + %s::interval + id * interval '1 us' from job
        """,
        queue,
        first_priority,
        rows,
        delay,
    )


def _fill_finished(sql: Contract, rows: int) -> None:
    """Store jobs that have succeeded, none of which is to be deleted today."""
    sql.run(
        """
        with job as (
          insert into taskq.jobs (queue, task, payload, priority, max_attempts, backoff, backoff_max, lease,
                                  created_at, enqueued_by)
          select 'past', 't', '{}', 0, 5, '30 s', '1 h', '60 s', taskq.clock(), user from generate_series(1, %s)
          returning id, queue, task, priority, created_at)
        insert into taskq.finished (
          id, queue, task, status, outcome, verb, attempt_id, worker_id, claimed_at, finished_at, purge_at, priority,
          scheduled_at, attempt_count, failure_count, expiry_streak, snooze_count, is_unique, is_ordered, watched)
        select id, queue, task, 'succeeded', 'success', 'complete', nextval('taskq.fence'), 'w', created_at, created_at,
          created_at + interval '1 day' + id * interval '1 ms', priority, created_at, 1, 0, 0, 0, false, false, false
        from job
        """,
        rows,
    )


@pytest.fixture(scope="module")
def backlog(databases: Databases) -> Iterator[Backlog]:
    with databases.copy() as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        sql = Contract(conn)
        for table in ("jobs", "ready", "running", "finished", "attempts"):
            # so that no other statistics arrive by themselves
            sql.run(f"alter table taskq.{table} set (autovacuum_enabled = off)")
            # filled in two thirds of the time; nothing else is different
            sql.run(f"alter table taskq.{table} set unlogged")
        _fill(sql, "tiny", 12)
        sql.run("analyze")
        for _ in range(2 * WARM_UP):
            sql.take("tiny")
        _fill(sql, "small", 2000)
        with psycopg.connect(dsn, autocommit=True) as other:
            small = _cost_of_claims(Contract(other), "small")
        _fill(sql, "big", BACKLOG)
        _fill(sql, "future", BACKLOG, first_priority=100, delay="1 day")
        _fill(sql, "future", 10_000)
        _fill_finished(sql, BACKLOG)
        yield Backlog(dsn, small, oldest=sql)


@pytest.fixture
def session(backlog: Backlog) -> Iterator[Callable[[], Contract]]:
    """Open sessions to the database of the backlog; their plans are their own."""
    with ExitStack() as stack:
        yield lambda: Contract(stack.enter_context(psycopg.connect(backlog.dsn, autocommit=True)))


def _claim(queue: str, limit: int) -> str:
    return f"claim(p_queues => array['{queue}'], p_worker_id => 'w', p_limit => {limit})"


def _alone(sql: Contract) -> bool:
    """Whether no other session keeps dead rows from being known as dead.

    Of its own database, one with a snapshot; of any, one that writes: a session reckons anew what is dead only when the
    oldest transaction of the whole server has become another.
    """
    return bool(
        sql.value(
            "select not exists (select from pg_stat_activity where pid <> pg_backend_pid() "
            "and (backend_xid is not null or backend_xmin is not null and datname = current_database()))"
        )
    )


def _cost_of_claims(
    sql: Contract, queue: str, *, most: tuple[float, float] = (math.inf, math.inf)
) -> tuple[int, int]:
    """Buffers of a claim of 10 and of one of 100, each after as many calls as its plans need to be kept.

    One that costs more than *most* is measured again: a vacuum or an analyze that comes by meanwhile keeps the index
    entries of what was claimed before alive, and a claim then visits them.
    """

    def cost(limit: int, most: float) -> int:
        return next(
            found for again in (True,) * 5 + (False,) if (found := measured(limit)) <= most or not again
        )

    def measured(limit: int) -> int:
        eventually(lambda: _alone(sql), "the database is quiet")
        for _ in range(WARM_UP):
            assert len(sql.rows(f"select * from taskq.{_claim(queue, limit)}")) == limit
        return buffers(sql, _claim(queue, limit))

    return cost(10, most[0]), cost(100, most[1])


def test_a_claim_costs_by_the_rows_it_returns(backlog: Backlog, session: Callable[[], Contract]) -> None:
    """Not by the due rows behind them, nor by rows of a higher priority that are not due yet.

    With statistics of a dozen jobs, fresh ones and ones that do not know the queue, in a new session and the oldest.
    An empty priority and a dead entry at the head of a range cost a few buffers each; a scan would cost thousands.
    """
    ten, hundred = backlog.small
    assert hundred <= 11 * ten
    assert hundred <= 25 * 100
    most = ten + 250, 1.3 * hundred + 250

    for statistics in ("of a dozen jobs", "fresh", "of other queues"):
        queues = ["big", "future"]
        if statistics == "fresh":
            session().run("analyze")
        elif statistics == "of other queues":
            _fill(session(), "late", BACKLOG // 10, first_priority=100, delay="1 day")
            _fill(session(), "late", BACKLOG // 10)
            queues = ["late"]
        for sql in (backlog.oldest, session()):
            for queue in queues:
                costs = _cost_of_claims(sql, queue, most=most)
                assert costs[0] <= most[0], (statistics, queue, costs)
                assert costs[1] <= most[1], (statistics, queue, costs)


def _plans(sql: Contract, call: str) -> list[Row]:
    """Run *call* and return the plan of every statement inside it, as auto_explain has seen it run."""
    logged: list[str] = []
    sql.run("load 'auto_explain'")
    for setting, value in {
        "auto_explain.log_min_duration": "0",
        "auto_explain.log_nested_statements": "on",
        "auto_explain.log_analyze": "on",
        "auto_explain.log_format": "json",
        "client_min_messages": "log",
    }.items():
        sql.run(f"set {setting} = {value}")
    sql.conn.add_notice_handler(lambda notice: logged.append(notice.message_primary or ""))
    sql.rows(f"select * from taskq.{call}")
    sql.run("reset client_min_messages")
    return [json.loads(text.partition("plan:\n")[2])["Plan"] for text in logged if "plan:\n" in text]


def _nodes(plan: Row) -> Iterator[Row]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


@pytest.mark.parametrize("queue", ["big", "future"])
def test_a_claim_reaches_every_row_by_an_index(session: Callable[[], Contract], queue: str) -> None:
    """The plans of the statements inside the real function, after those of the first calls were thrown away."""
    sql = session()
    if sql.value("show is_superuser") != "on":
        pytest.skip("auto_explain needs a superuser")
    for _ in range(WARM_UP):
        sql.rows(f"select * from taskq.{_claim(queue, 10)}")
    nodes = [node for plan in _plans(sql, _claim(queue, 10)) for node in _nodes(plan)]

    reached = [node for node in nodes if node.get("Relation Name") in ("ready", "jobs", "running")]
    assert {node["Relation Name"] for node in reached} == {"ready", "jobs", "running"}
    kinds = {node["Node Type"] for node in reached}
    assert kinds <= {"Index Scan", "Index Only Scan", "Tid Scan", "Bitmap Heap Scan", "ModifyTable"}
    for node in nodes:
        loops = node.get("Actual Loops", 1)
        assert node.get("Actual Rows", 0) * loops <= 20, node  # ten jobs, and ten priorities
        if "Relation Name" in node:
            assert node.get("Rows Removed by Filter", 0) * loops == 0, node


def _attempts(sql: Contract, count: int) -> list[Row]:
    return sql.claim(queues=["big"], worker_id="w", limit=count)


def _one(sql: Contract, function: str) -> str:
    [attempt] = _attempts(sql, 1)
    return f"{function}({attempt['job_id']}, {attempt['attempt_id']})"


def _beat(sql: Contract, count: int) -> str:
    attempts = _attempts(sql, count)
    job_ids, fences = ([each[name] for each in attempts] for name in ("job_id", "attempt_id"))
    return f"heartbeat('w', array{job_ids}::bigint[], array{fences}::bigint[])"


def _settle(sql: Contract, verb: str, count: int) -> str:
    fields = {"delay": 60} if verb == "snooze" else {}
    document = [
        {"job_id": each["job_id"], "attempt_id": each["attempt_id"], "verb": verb, **fields}
        for each in _attempts(sql, count)
    ]
    return f"settle('w', '{json.dumps(document)}')"


def _enqueue_hundred(sql: Contract) -> str:
    return f"enqueue_many('big', '{json.dumps([{'task': 't'}] * 100)}')"


def _take_back_ten(sql: Contract) -> str:
    sql.run_out(*(each["job_id"] for each in _attempts(sql, 10)))
    return "take_back()"


def _prune_hundred(sql: Contract) -> str:
    sql.run(
        "update taskq.finished set purge_at = taskq.clock() - interval '1 minute' where id = any (array("
        "select id from taskq.finished where purge_at > taskq.clock() order by purge_at limit 100))"
    )
    return "prune()"


def _redrive_one(sql: Contract) -> str:
    [attempt] = _attempts(sql, 1)
    sql.rows(f"select * from taskq.fail({attempt['job_id']}, {attempt['attempt_id']}, 'error', false)")
    return f"redrive({attempt['job_id']})"


#: How each call is made, and how many buffers it may touch: about twice what it does.
CALLS: dict[str, tuple[Callable[[Contract], str], int]] = {
    "claim one": (lambda sql: _claim("big", 1), 250),
    "claim ten": (lambda sql: _claim("big", 10), 500),
    "claim a hundred": (lambda sql: _claim("big", 100), 3300),
    "enqueue": (lambda sql: "enqueue('big', 't')", 30),
    "enqueue with a key": (lambda sql: "enqueue('big', 't', p_unique_key => random()::text)", 60),
    "enqueue_many of a hundred": (_enqueue_hundred, 1600),
    "poll_hint": (lambda sql: "poll_hint(array['small', 'big', 'future'])", 400),
    "heartbeat of ten": (lambda sql: _beat(sql, 10), 250),
    "heartbeat of a hundred": (lambda sql: _beat(sql, 100), 1500),
    "settle a hundred complete": (lambda sql: _settle(sql, "complete", 100), 1700),
    "settle a hundred fail": (lambda sql: _settle(sql, "fail", 100), 3700),
    "settle ten complete": (lambda sql: _settle(sql, "complete", 10), 250),
    "settle ten fail": (lambda sql: _settle(sql, "fail", 10), 400),
    "settle ten snooze": (lambda sql: _settle(sql, "snooze", 10), 400),
    "settle ten cancel": (lambda sql: _settle(sql, "cancel", 10), 250),
    "complete": (lambda sql: _one(sql, "complete"), 60),
    "attempt_state": (lambda sql: _one(sql, "attempt_state"), 60),
    "get_job": (lambda sql: f"get_job({sql.new_job(queue='big')})", 60),
    "job_history": (lambda sql: f"job_history({sql.new_job(queue='big')})", 60),
    "cancel_job that waits": (lambda sql: f"cancel_job({sql.new_job(queue='big')})", 80),
    "cancel_job that runs": (lambda sql: f"cancel_job({_attempts(sql, 1)[0]['job_id']})", 80),
    "list_jobs": (lambda sql: "list_jobs(p_limit => 10)", 500),
    "expire_ttl": (lambda sql: "expire_ttl()", 30),
    "prune": (lambda sql: "prune()", 60),
    "prune a hundred": (_prune_hundred, 2300),
    "redrive": (_redrive_one, 120),
}


def test_no_step_of_a_job_costs_by_what_waits(session: Callable[[], Contract]) -> None:
    sql = session()
    costs = {}
    for name, (call, most) in CALLS.items():
        for _ in range(WARM_UP):
            sql.rows(f"select * from taskq.{call(sql)}")
        for _ in range(10):  # what others do on the server meanwhile keeps entries of dead rows alive
            eventually(lambda: _alone(sql), "the database is quiet")
            costs[name] = buffers(sql, call(sql))
            if costs[name] <= most:
                break

    assert {name: cost for name, cost in costs.items() if cost > CALLS[name][1]} == {}


def test_taking_back_costs_by_what_runs(session: Callable[[], Contract]) -> None:
    """It looks at each job that runs, of which there are as many as slots and not as jobs."""
    sql = session()
    for _ in range(WARM_UP):
        sql.rows(f"select * from taskq.{_take_back_ten(sql)}")
    running = sql.value("select count(*) from taskq.running")
    cost = min(buffers(sql, _take_back_ten(sql)) for _ in range(3))

    assert cost <= 2 * running + 500


@pytest.mark.parametrize(
    ("index", "name"),
    [
        ("ready_claim", "claim ten"),
        ("finished_purge", "prune a hundred"),
        ("ready_pkey", "cancel_job that waits"),
    ],
)
def test_a_wrong_plan_costs_more_than_is_allowed(
    session: Callable[[], Contract], index: str, name: str
) -> None:
    """What a plan would cost that does not use the index: a proof that the numbers above would notice."""
    sql = session()
    make, most = CALLS[name]
    call = make(sql)
    with sql.conn.transaction(force_rollback=True):
        # dropped it would be missed by claims, which ask how many entries of it they have walked over
        sql.run(f"update pg_index set indisvalid = false where indexrelid = 'taskq.{index}'::regclass")
        cost = buffers(sql, call)

    assert cost > 2 * most
