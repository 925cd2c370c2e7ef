"""What travels with a job has the same columns at every place, and every movement carries all of it."""

# Hard spot 17, scenario B52.

from __future__ import annotations

from datetime import timedelta

from kit.contract import Clock, Contract, Row

#: What a place has for itself; every other column travels.
OWN = {
    "ready": {"hold"},
    "running": {
        "attempt_id",
        "worker_id",
        "claimed_at",
        "lease",
        "lease_expires_at",
        "cancel_requested_at",
        "cancel_actor",
        "cancel_reason",
    },
    "finished": {
        "status",
        "outcome",
        "result",
        "error",
        "reason",
        "verb",
        "attempt_id",
        "worker_id",
        "claimed_at",
        "finished_at",
        "purge_at",
    },
}


def _columns(sql: Contract, table: str) -> dict[str, tuple[str, bool]]:
    rows = sql.rows(
        f"""
        select attname, format_type(atttypid, atttypmod) as type, attnotnull from pg_attribute
        where attrelid = 'taskq.{table}'::regclass and attnum > 0 and not attisdropped
        """
    )
    return {row["attname"]: (row["type"], row["attnotnull"]) for row in rows}


def _travelling(sql: Contract, table: str) -> dict[str, tuple[str, bool]]:
    columns = _columns(sql, table)
    assert columns.keys() >= OWN[table]
    return {name: kind for name, kind in columns.items() if name not in OWN[table]}


def test_the_places_agree_on_what_travels(sql: Contract) -> None:
    assert _travelling(sql, "ready") == _travelling(sql, "running") == _travelling(sql, "finished")


def test_places_share_the_types_of_the_request(sql: Contract) -> None:
    jobs, ready = _columns(sql, "jobs"), _columns(sql, "ready")
    for name in ("id", "queue", "task", "priority", "concurrency_key", "watched"):
        assert jobs[name] == ready[name]


def test_an_attempt_is_recorded_alike_in_attempts_and_on_the_finished_row(sql: Contract) -> None:
    attempts, finished = _columns(sql, "attempts"), _columns(sql, "finished")
    names = {"job_id": "id", "ended_at": "finished_at"}

    for name, (type_, _) in attempts.items():
        assert finished[names.get(name, name)][0] == type_, name


def test_every_movement_carries_everything_that_travels(sql: Contract, clock: Clock) -> None:
    """A value that no default has stands in every travelling column, and is followed through all places."""
    attempt = sql.new_attempt(concurrency_key="k", unique_key="u", ttl=timedelta(days=200), priority=7)
    job_id = attempt["job_id"]
    marks: Row = {
        "attempt_count": 11,
        "failure_count": 2,
        "expiry_streak": 1,
        "snooze_count": 13,
        "progress": 17,
        "watched": True,
    }
    sql.run(
        "update taskq.running set attempt_count = 11, failure_count = 2, expiry_streak = 1, snooze_count = 13, "
        "progress = '17', watched = true"
    )

    def standing(table: str, **expected: object) -> None:
        [row] = sql.rows(f"select * from taskq.{table} where id = %s", job_id)
        travelling = {name: row[name] for name in _travelling(sql, table)}
        assert travelling == {**at_first, **expected}

    [row] = sql.rows("select * from taskq.running")
    at_first = {name: row[name] for name in _travelling(sql, "running")}
    assert at_first.items() >= marks.items()
    assert None not in at_first.values()

    clock.forward(seconds=60)
    sql.take_back()
    again = {**marks, "failure_count": 3, "expiry_streak": 2}
    at_first["scheduled_at"] = sql.job(job_id)["scheduled_at"]
    standing("ready", **again)

    sql.make_due(job_id)
    at_first["scheduled_at"] = clock.now
    attempt = sql.take()
    standing("running", **{**again, "attempt_count": 12})
    sql.snooze(job_id=job_id, attempt_id=attempt["attempt_id"], delay=timedelta(seconds=5))
    clock.forward(seconds=5)
    at_first["scheduled_at"] = clock.now
    standing("ready", **{**again, "attempt_count": 12, "expiry_streak": 0, "snooze_count": 14})

    with sql.conn.transaction(force_rollback=True):
        sql.cancel_job(job_id=job_id)
        standing("finished", **{**again, "attempt_count": 12, "expiry_streak": 0, "snooze_count": 14})
        sql.redrive(job_id=job_id)
        restarted = {"failure_count": 0, "expires_at": clock.now + timedelta(days=200)}
        standing(
            "ready", **{**again, **restarted, "attempt_count": 12, "expiry_streak": 0, "snooze_count": 14}
        )
    attempt = sql.take()
    for end in (sql.cancel_attempt, sql.complete):  # by finish, and by finish_completed
        with sql.conn.transaction(force_rollback=True):
            end(job_id=job_id, attempt_id=attempt["attempt_id"])
            standing("finished", **{**again, "attempt_count": 13, "expiry_streak": 0, "snooze_count": 14})


def test_every_instant_knows_its_zone(sql: Contract) -> None:
    wrong = sql.rows("""
        select c.relname, a.attname
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = 'taskq'::regnamespace and a.attnum > 0 and not a.attisdropped
          and a.atttypid in ('timestamp'::regtype, 'timestamp[]'::regtype, 'date'::regtype, 'time'::regtype,
                             'timetz'::regtype)""")
    assert wrong == []


def test_no_argument_or_result_is_an_instant_without_zone(sql: Contract) -> None:
    wrong = sql.rows("""
        select p.proname
        from pg_proc p, unnest(p.proargtypes::oid[] || coalesce(p.proallargtypes, '{}') || p.prorettype) as t (type)
        where p.pronamespace = 'taskq'::regnamespace
          and t.type in ('timestamp'::regtype, 'date'::regtype, 'time'::regtype)""")
    assert wrong == []


def test_names_say_instants_and_durations(sql: Contract) -> None:
    """What ends in `_at` is an instant and nothing else is; durations are intervals (the words of the design)."""
    wrong = sql.rows("""
        select c.relname, a.attname, format_type(a.atttypid, null)
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = 'taskq'::regnamespace and c.relkind in ('r', 'v', 'c') and a.attnum > 0
          and (a.atttypid = 'timestamptz'::regtype) <> (a.attname ~ '(_|^)at$')""")
    assert wrong == []


def test_every_id_and_fence_has_64_bits(sql: Contract) -> None:
    """B86."""
    wrong = sql.rows("""
        select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = 'taskq'::regnamespace and c.relkind in ('r', 'v', 'c') and a.attnum > 0
          and a.attname ~ '(^|_)id$' and a.attname <> 'worker_id' and a.atttypid <> 'bigint'::regtype""")
    assert wrong == []
