"""At most N running jobs per concurrency key: exact at the claim, and no key is ever stuck."""

# Scenarios B40, B41, B42, B43, B44.

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row


def _claim(sql: Contract, *queues: str, limit: int = 100) -> list[int]:
    return [row["job_id"] for row in sql.claim(queues=list(queues or ("q",)), worker_id="w", limit=limit)]


def _keyed(sql: Contract, count: int, **arguments: Any) -> list[int]:
    return [sql.new_job(**{"concurrency_key": "k", **arguments}) for _ in range(count)]


def _ids(attempt: Row) -> dict[str, int]:
    return {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}


def _held(sql: Contract) -> list[int]:
    return [row["id"] for row in sql.rows("select id from taskq.ready where hold = 'key' order by id")]


@pytest.fixture(autouse=True)
def _no_key_is_stuck(sql: Contract) -> Any:
    """Fail where held jobs wait for nothing: their key has room, no signal and no job that a claim could see."""
    yield
    stuck = sql.rows("""
        select distinct h.concurrency_key from taskq.ready h
        where h.hold = 'key'
          and (select count(*) from taskq.running x where x.concurrency_key = h.concurrency_key)
              < coalesce((select l.max_running from taskq.concurrency_limits l where l.key = h.concurrency_key), 1)
          and not exists (select from taskq.signals s where s.kind = 'key' and s.key = h.concurrency_key)
          and not exists (
            select from taskq.ready r where r.concurrency_key = h.concurrency_key and r.hold is null)""")
    assert stuck == []


# -- exact at the claim -----------------------------------------------------------------------------------------


def test_one_job_of_a_key_runs_unless_told_otherwise(sql: Contract) -> None:
    first, *others = _keyed(sql, 3)

    assert _claim(sql) == [first]
    assert _claim(sql) == []
    assert _held(sql) == others


def test_keys_are_independent_and_jobs_without_one_are_free(sql: Contract) -> None:
    a = _keyed(sql, 2, concurrency_key="a")
    free = [sql.new_job() for _ in range(3)]
    b = _keyed(sql, 2, concurrency_key="b")

    assert _claim(sql) == [a[0], *free, b[0]]


@pytest.mark.parametrize("limit", [2, 3, 7])
def test_as_many_run_as_the_limit_says(sql: Contract, limit: int) -> None:
    sql.set_concurrency_limit(key="k", max_running=limit)
    ids = _keyed(sql, 9)

    assert _claim(sql, limit=2) == ids[:2]
    assert _claim(sql) == ids[2:limit]
    assert _claim(sql) == []


def test_the_limit_counts_over_queues(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=3)
    a, b = _keyed(sql, 2, queue="a"), _keyed(sql, 2, queue="b")

    assert _claim(sql, "b", "a") == [*b, a[0]]
    assert _claim(sql, "a", "b") == []


def test_the_best_jobs_of_a_key_go_first(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=2)
    low, middle, high = (_keyed(sql, 1, priority=priority)[0] for priority in (1, 2, 3))

    assert _claim(sql) == [high, middle]
    assert _held(sql) == [low]


def test_a_future_job_takes_no_room(sql: Contract) -> None:
    """B43: a delayed job of the same key blocks nobody."""
    _keyed(sql, 1, priority=9, delay=timedelta(hours=1))
    [due] = _keyed(sql, 1)

    assert _claim(sql) == [due]


def test_a_claim_in_flight_is_not_waited_for_and_not_exceeded(sql: Contract, other: Contract) -> None:
    """B40: the second claimer does not see the first one's row, but the key's lock; it passes the key over."""
    first, second = _keyed(sql, 2)
    free = sql.new_job()

    with sql.conn.transaction():
        assert _claim(sql, limit=1) == [first]
        assert _claim(other) == [free]
        assert other.job(second)["hold"] is None
        assert other.poll_hint(queues=["q"])[0]["state"] == "ready"
    assert _claim(other) == []
    assert _held(sql) == [second]


def test_a_claim_that_rolls_back_leaves_its_room(sql: Contract, other: Contract) -> None:
    [job_id] = _keyed(sql, 1)
    with sql.conn.transaction(force_rollback=True):
        assert _claim(sql) == [job_id]
        assert _claim(other) == []

    assert _claim(other) == [job_id]


def test_a_full_key_does_not_hide_the_jobs_behind_it(sql: Contract) -> None:
    """A claim that finds nothing but a full key puts its jobs on hold, as many as stand together."""
    jobs = _keyed(sql, 21, priority=9)
    behind = sql.new_job()

    assert len(_claim(sql, limit=1)) == 1
    assert _claim(sql, limit=10) == []
    assert _held(sql) == jobs[1:]
    assert sql.poll_hint(queues=["q"])[0]["state"] == "ready"
    assert _claim(sql, limit=10) == [behind]


def test_a_claim_that_meets_others_too_holds_no_more_than_it_has_seen(sql: Contract) -> None:
    jobs = _keyed(sql, 5)
    between = sql.new_job()
    later = _keyed(sql, 5)
    assert _claim(sql, limit=1) == jobs[:1]

    assert _claim(sql, limit=6) == [between]
    assert _held(sql) == [*jobs[1:], *later[:1]]


def test_a_jam_is_put_aside_at_most_ten_thousand_rows_at_a_time(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=0)
    sql.run("""
        with job as (
          insert into taskq.jobs (queue, task, payload, priority, concurrency_key, max_attempts, backoff,
                                  backoff_max, lease, created_at, enqueued_by)
          select 'q', 't', '{}', 0, 'k', 5, '30 s', '1 h', '60 s', taskq.clock(), user from generate_series(1, 10050)
          returning id, queue, task, priority, concurrency_key, created_at)
        insert into taskq.ready (id, queue, task, priority, scheduled_at, concurrency_key)
        select id, queue, task, priority, created_at - interval '1 day', concurrency_key
        from job""")
    behind = sql.new_job()
    assert _claim(sql, limit=10) == []
    assert 10_000 <= len(_held(sql)) <= 10_010
    assert _claim(sql, limit=10) == []

    assert _claim(sql, limit=10) == [behind]


def test_a_jam_whose_rows_are_due_at_one_instant_is_put_aside_too(sql: Contract, clock: Clock) -> None:
    jobs = _keyed(sql, 30)
    behind = sql.new_job()
    assert _claim(sql, limit=1) == jobs[:1]
    assert _claim(sql, limit=1) == []

    assert (_held(sql), _claim(sql, limit=1)) == (jobs[1:], [behind])


@pytest.mark.own_database
def test_thousands_of_blocked_jobs_at_the_head_cost_the_claims_behind_them_nothing(sql: Contract) -> None:
    """B44: buffers rather than time; the jam is walked over once, and while its key is full no claim reads it again."""
    sql.run(
        """
        with job as (
          insert into taskq.jobs (queue, task, payload, priority, concurrency_key, max_attempts, backoff, backoff_max,
                                  lease, created_at, enqueued_by)
          select 'q', 't', '{}', 0, 'hot', 5, '30 s', '1 h', '60 s', taskq.clock() - interval '1 hour', user
          from generate_series(1, 5000)
          returning id, queue, task, priority, concurrency_key, created_at)
        insert into taskq.ready (id, queue, task, priority, concurrency_key, scheduled_at)
        select id, queue, task, priority, concurrency_key, created_at from job
        """
    )
    behind = [sql.new_job() for _ in range(30)]

    [hot] = _claim(sql, limit=1000)
    started: list[int] = []
    for _ in range(5):
        started += _claim(sql, limit=1000)
    assert started == behind
    assert len(_held(sql)) == 4999

    sql.run(
        "vacuum taskq.ready"
    )  # what autovacuum does meanwhile: the index forgets the rows that are on hold now
    for _ in range(8):
        sql.new_job()
        [row] = sql.rows(
            "explain (analyze, buffers, format json) select * from taskq.claim(array['q'], 'w', p_limit => 10)"
        )
        plan = row["QUERY PLAN"][0]["Plan"]
        assert plan["Actual Rows"] == 1
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 1000
    assert sql.value("select array_agg(id) from taskq.running where concurrency_key = 'hot'") == [hot]


def test_one_claim_admits_64_keys(sql: Contract) -> None:
    ids = [_keyed(sql, 1, concurrency_key=f"k{n}")[0] for n in range(70)]

    assert _claim(sql) == ids[:64]
    assert _held(sql) == []
    assert _claim(sql) == ids[64:]


def test_keys_beyond_the_64_leave_jobs_without_one_alone(sql: Contract) -> None:
    for n in range(70):
        _keyed(sql, 1, concurrency_key=f"k{n}")
    free = sql.new_job()

    assert free in _claim(sql)


def test_the_advisory_locks_end_with_the_claim(sql: Contract) -> None:
    _keyed(sql, 2)
    with sql.conn.transaction():
        _claim(sql)
        assert (
            sql.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")
            == 2  # the key's, and that of the limits, shared
        )
    assert (
        sql.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()") == 0
    )


# -- hold and signal --------------------------------------------------------------------------------------------


def _complete(sql: Contract, running: Row, clock: Clock) -> None:
    sql.complete(**_ids(running))


def _fail(sql: Contract, running: Row, clock: Clock) -> None:
    sql.fail(**_ids(running), error="boom", retry_after=timedelta(days=1))


def _fail_for_good(sql: Contract, running: Row, clock: Clock) -> None:
    sql.fail(**_ids(running), error="boom", retryable=False)


def _snooze(sql: Contract, running: Row, clock: Clock) -> None:
    sql.snooze(**_ids(running), delay=timedelta(days=1))


def _release(sql: Contract, running: Row, clock: Clock) -> None:
    sql.release(**_ids(running), delay=timedelta(days=1))


def _cancel_attempt(sql: Contract, running: Row, clock: Clock) -> None:
    sql.cancel_attempt(**_ids(running))


def _take_back(sql: Contract, running: Row, clock: Clock) -> None:
    sql.run("update taskq.running set expiry_streak = 1")  # the second in a row: it comes back later
    sql.run_out(running["job_id"])
    assert len(sql.take_back()) == 1


def _take_back_for_good(sql: Contract, running: Row, clock: Clock) -> None:
    sql.run("update taskq.running set expiry_streak = 2")
    sql.run_out(running["job_id"])
    assert len(sql.take_back()) == 1


def _raise_limit(sql: Contract, running: Row, clock: Clock) -> None:
    sql.set_concurrency_limit(key="k", max_running=2)


every_way_out = pytest.mark.parametrize(
    "event",
    [
        _complete,
        _fail,
        _fail_for_good,
        _snooze,
        _release,
        _cancel_attempt,
        _take_back,
        _take_back_for_good,
        _raise_limit,
    ],
)
Event = Callable[[Contract, Row, Clock], None]


@every_way_out
def test_a_held_job_comes_back_when_its_key_has_room(sql: Contract, clock: Clock, event: Event) -> None:
    _keyed(sql, 4)
    running = sql.take(limit=9)
    held = _held(sql)
    assert len(held) == 3

    event(sql, running, clock)
    assert sql.poll_hint(queues=["q"])[0]["state"] == "ready"
    assert _claim(sql) == held[:1]
    assert _claim(sql) == []
    assert sql.rows("select from taskq.signals") == []


@every_way_out
def test_a_held_job_comes_back_in_every_queue(sql: Contract, clock: Clock, event: Event) -> None:
    """One of the queues is paused: what comes back there may not keep the others waiting, nor be forgotten."""
    _keyed(sql, 1, queue="q", priority=9)
    in_paused, in_open = _keyed(sql, 2, queue="a"), _keyed(sql, 2, queue="b")
    running = sql.take(limit=9)
    assert _claim(sql, "a", "b") == []
    sql.pause_queue(queue="a")

    event(sql, running, clock)
    assert _claim(sql, "a", "b") == in_open[:1]
    assert _claim(sql, "a", "b") == []
    [now_running] = sql.rows("select id as job_id, attempt_id from taskq.running where queue = 'b'")
    sql.complete(**_ids(now_running))
    sql.resume_queue(queue="a")
    assert _claim(sql, "a", "b") == in_paused[:1]


@pytest.mark.parametrize("end", ["cancel", "ttl"])
def test_a_held_job_comes_back_when_the_one_before_it_ends_unclaimed(
    sql: Contract, clock: Clock, end: str
) -> None:
    """With room there is one job of the key that a claim can see; its end by an operator or by its TTL must signal."""
    _keyed(sql, 1)
    running = sql.take()
    [visible] = _keyed(sql, 1, priority=9, ttl=timedelta(seconds=5))
    waiting = _keyed(sql, 2)
    assert _claim(sql) == []
    sql.complete(**_ids(running))
    sql.pause_queue(queue="q")
    assert _claim(sql) == []  # brings the best one back, but the queue hands out nothing
    assert _held(sql) == waiting
    sql.resume_queue(queue="q")

    if end == "cancel":
        sql.cancel_job(job_id=visible)
    else:
        clock.forward(seconds=5)
        assert sql.value("select taskq.expire_ttl()") == 1
    assert _claim(sql) == waiting[:1]


def test_a_held_job_comes_back_when_the_one_before_it_is_put_off(sql: Contract) -> None:
    """A debounce of the one job of the key that a claim can see: the others need not wait until it is due."""
    _keyed(sql, 1)
    running = sql.take()
    _keyed(sql, 1, priority=9, unique_key="u")
    waiting = _keyed(sql, 2)
    assert _claim(sql) == []
    sql.complete(**_ids(running))
    sql.pause_queue(queue="q")
    assert _claim(sql) == []  # brings the best one back, but the queue hands out nothing
    assert _held(sql) == waiting
    sql.resume_queue(queue="q")

    [answer] = sql.enqueue(
        queue="q",
        task="t",
        concurrency_key="k",
        unique_key="u",
        unique_mode="replace",
        delay=timedelta(days=1),
    )
    assert answer["status"] == "replaced"
    assert _claim(sql) == waiting[:1]


@pytest.mark.parametrize("end", ["cancel", "ttl"])
def test_the_end_of_a_held_job_leaves_the_others(sql: Contract, clock: Clock, end: str) -> None:
    _keyed(sql, 1)
    running = sql.take()
    ended, *waiting = _keyed(sql, 1, ttl=timedelta(seconds=5)) + _keyed(sql, 2)
    assert _claim(sql) == []
    if end == "cancel":
        sql.cancel_job(job_id=ended)
    else:
        clock.forward(seconds=5)
        assert sql.value("select taskq.expire_ttl()") == 1

    assert _claim(sql) == []
    sql.complete(**_ids(running))
    assert _claim(sql) == waiting[:1]


def test_as_many_come_back_as_have_room(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=3)
    ids = _keyed(sql, 9)
    running = sql.claim(queues=["q"], worker_id="w", limit=9)
    for attempt in running[:2]:
        sql.complete(**_ids(attempt))

    assert _claim(sql) == ids[3:5]
    sql.set_concurrency_limit(key="k", max_running=5)
    assert _claim(sql) == ids[5:7]
    assert _held(sql) == ids[7:]


def test_one_claim_brings_back_64_keys(sql: Contract) -> None:
    for count in (1, 2):
        document = [{"task": "t", "concurrency_key": f"k{n:02}"} for n in range(66)]
        sql.enqueue_many(queue="q", jobs=Jsonb(document))
        assert len(_claim(sql) + _claim(sql)) == 66 * (2 - count)
    sql.run(
        "update taskq.running set lease_expires_at = taskq.clock() - interval '1 hour', expiry_streak = 2"
    )
    assert len(sql.take_back()) == 66

    assert [len(_claim(sql)) for _ in range(3)] == [64, 2, 0]


def test_the_best_held_job_comes_back_first(sql: Contract) -> None:
    _keyed(sql, 1)
    running = sql.take()
    _keyed(sql, 2, priority=1)
    [best] = _keyed(sql, 1, priority=2)
    assert _claim(sql) == []
    sql.complete(**_ids(running))

    assert _claim(sql) == [best]


def test_a_better_job_that_arrives_later_goes_before_held_ones(sql: Contract) -> None:
    _keyed(sql, 3)
    running = sql.take(limit=9)
    [best] = _keyed(sql, 1, priority=2)
    sql.complete(**_ids(running))

    assert _claim(sql) == [best]


def test_a_job_that_comes_back_by_itself_queues_behind_none(sql: Contract) -> None:
    """A released job is due at once, and is as good as any other of its key."""
    first, *_ = _keyed(sql, 3)
    running = sql.take(limit=9)
    sql.release(**_ids(running))

    assert len(_claim(sql)) == 1
    assert sql.value("select count(*) from taskq.running") == 1
    assert sql.job(first)["hold"] in (None, "key")


def test_a_limit_of_zero_closes_the_key(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=0)
    ids = _keyed(sql, 3)

    assert _claim(sql) == []
    assert _held(sql) == ids
    assert sql.poll_hint(queues=["q"])[0]["state"] == "empty"
    sql.set_concurrency_limit(key="k", max_running=2)
    assert _claim(sql) == ids[:2]


def test_a_lowered_limit_ends_nothing_and_starts_nothing(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=3)
    ids = _keyed(sql, 5)
    running = sql.claim(queues=["q"], worker_id="w", limit=9)
    sql.set_concurrency_limit(key="k", max_running=1)

    assert len(running) == 3
    assert {sql.job(each["job_id"])["status"] for each in running} == {"running"}
    for attempt in running[:2]:
        sql.complete(**_ids(attempt))
        assert _claim(sql) == []
    sql.complete(**_ids(running[2]))
    assert _claim(sql) == ids[3:4]


def test_the_default_comes_back_with_the_limit_removed(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=0)
    ids = _keyed(sql, 2)
    assert _claim(sql) == []
    sql.set_concurrency_limit(key="k", max_running=None)

    assert _claim(sql) == ids[:1]


def test_a_signal_is_appended_also_while_nothing_is_held(sql: Contract) -> None:
    """A claim that is putting rows on hold right now has not committed yet, and would be missed (B41)."""
    attempt = sql.new_attempt(concurrency_key="k")
    sql.complete(**_ids(attempt))

    assert sql.rows("select kind, key from taskq.signals") == [{"kind": "key", "key": "k"}]
    assert _claim(sql) == []
    assert sql.rows("select from taskq.signals") == []


def test_a_claim_that_holds_jobs_while_the_running_one_ends_loses_no_wake_up(
    sql: Contract, other: Contract
) -> None:
    """B41: the claim has counted a full key and not committed; the end of the running job crosses it."""
    _keyed(sql, 2)
    running = sql.take(limit=1)
    with sql.conn.transaction():
        assert _claim(sql) == []
        other.complete(**_ids(running))
        assert _claim(other) == []  # the key is locked

    assert len(_claim(other)) == 1


def test_a_held_job_that_is_locked_is_not_forgotten(sql: Contract, other: Contract) -> None:
    _keyed(sql, 2)
    running = sql.take(limit=9)
    [held] = _held(sql)

    with sql.conn.transaction(force_rollback=True):
        sql.cancel_job(job_id=held)
        other.complete(**_ids(running))
        assert _claim(other) == []
    assert _claim(other) == [held]


def test_a_settle_that_rolls_back_frees_nothing(sql: Contract) -> None:
    _keyed(sql, 2)
    running = sql.take(limit=9)
    with sql.conn.transaction(force_rollback=True):
        sql.complete(**_ids(running))

    assert _claim(sql) == []


def test_a_worker_that_dies_leaks_no_room(sql: Contract) -> None:
    """B42: the key is counted from the running rows, and its lost job can be rescued at the limit too."""
    _keyed(sql, 2)
    lost = sql.take(limit=9)
    sql.run_out(lost["job_id"])
    sql.take_back()

    assert len(_claim(sql)) == 1
    assert sql.value("select count(*) from taskq.running") == 1


def test_jobs_without_a_key_leave_no_signal(sql: Contract) -> None:
    sql.complete(**_ids(sql.new_attempt()))
    sql.cancel_job(job_id=sql.new_job())

    assert sql.rows("select from taskq.signals") == []


def test_wakes_the_sleepers_of_queues_with_held_jobs(sql: Contract, clock: Clock, heard) -> None:
    _keyed(sql, 1, queue="a")
    _keyed(sql, 1, queue="b")
    running = sql.take("a")
    assert _claim(sql, "b") == []
    sql.sleep_until(worker_id="s", queues=["a", "b", "c"], wakes_at=clock.now + timedelta(seconds=5))
    heard()
    sql.complete(**_ids(running))

    assert heard() == ["b"]


def test_wakes_nobody_for_held_jobs_that_no_sleeper_serves(sql: Contract, clock: Clock, heard) -> None:
    _keyed(sql, 2)
    running = sql.take(limit=9)
    sql.sleep_until(worker_id="s", queues=["other"], wakes_at=clock.now + timedelta(seconds=5))
    heard()
    sql.complete(**_ids(running))

    assert heard() == []
