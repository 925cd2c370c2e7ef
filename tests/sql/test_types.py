"""Caps exactly at and one over, text that is cut, and settings of a role that change how values look."""

# Scenarios B27, B39, B52, B59, B64.

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Connection, Contract, Row, refused
from taskq_sync.db.sqlfiles import shipped_files


def _object_of(size: int) -> str:
    """A JSON object whose text as jsonb has *size* bytes; as sent it is written without blanks."""
    filled = size - len('{"x": ""}')
    text = '{"x":"' + "é" * (filled // 2) + "y" * (filled % 2) + '"}'
    assert len(text.encode()) == size - 1
    return text


def _text_of(size: int) -> Any:
    """A JSON text whose text as jsonb has *size* bytes, the two quotes included."""
    return Jsonb("é" * ((size - 2) // 2) + "y" * (size % 2))


def _name_of(size: int) -> str:
    return "é" * (size // 2) + "y" * (size % 2)


# -- caps of requests -------------------------------------------------------------------------------------------

CAPS: list[tuple[str, int, Callable[[int], Any], str]] = [
    ("payload", 65536, _object_of, "a payload of 65537 bytes is over the cap of 65536"),
    ("headers", 8192, _object_of, "headers of 8193 bytes are over the cap of 8192"),
    ("queue", 120, _name_of, "a queue name of 121 bytes is over the cap of 120"),
    ("task", 120, _name_of, "a task name of 121 bytes is over the cap of 120"),
    ("unique_key", 255, _name_of, "a unique_key of 256 bytes is over the cap of 255"),
    ("concurrency_key", 255, _name_of, "a concurrency_key of 256 bytes is over the cap of 255"),
]
every_cap = pytest.mark.parametrize(("name", "cap", "make", "message"), CAPS)


@every_cap
def test_enqueue_takes_a_value_at_the_cap_and_refuses_a_byte_more(
    sql: Contract, name: str, cap: int, make: Callable[[int], Any], message: str
) -> None:
    stored = sql.job(sql.new_job(**{name: make(cap)}))[name]
    if isinstance(stored, str):
        assert len(stored.encode()) == cap
    else:
        assert sql.value(f"select octet_length({name}::text) from taskq.jobs") == cap
    with refused("TQ422", message):
        sql.new_job(**{name: make(cap + 1)})


@pytest.mark.parametrize(("name", "cap", "make", "message"), [cap for cap in CAPS if cap[0] != "queue"])
def test_enqueue_many_has_the_same_caps_and_names_the_ordinal(
    sql: Contract, name: str, cap: int, make: Callable[[int], Any], message: str
) -> None:
    def job(size: int) -> dict[str, Any]:
        value = make(size)
        return {"task": "t", name: json.loads(value) if make is _object_of else value}

    assert len(sql.enqueue_many(queue="q", jobs=Jsonb([job(cap), job(cap)]))) == 2
    with refused("TQ422", "the job at ordinal 1: " + message, detail="ordinal 1"):
        sql.enqueue_many(queue="q", jobs=Jsonb([job(cap), job(cap + 1)]))


def test_a_value_at_the_cap_travels_to_the_worker_and_through_the_indexes(sql: Contract) -> None:
    """B39: keys of the greatest length fit the indexes, also of characters that do not compress."""
    key = "".join(chr(0x4E00 + n * 37 % 20000) for n in range(85))
    assert len(key.encode()) == 255
    queue, payload = _name_of(120), json.loads(_object_of(65536))
    job_id = sql.new_job(
        queue=queue, task=_name_of(120), payload=payload, unique_key=key, concurrency_key=key
    )
    waiting = sql.new_job(queue=queue, concurrency_key=key)
    attempt = sql.take(queue, limit=9)

    assert (attempt["job_id"], attempt["payload"], attempt["concurrency_key"]) == (job_id, payload, key)
    assert sql.job(waiting)["hold"] == "key"


# -- caps of settlements and diagnostics ------------------------------------------------------------------------


def _ids(attempt: Row) -> dict[str, int]:
    return {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}


def test_a_result_fits_at_the_cap_and_is_rejected_a_byte_over(sql: Contract) -> None:
    attempt = sql.new_attempt()
    [over] = sql.complete(**_ids(attempt), result=_text_of(8193))
    [at] = sql.complete(**_ids(attempt), result=_text_of(8192))

    assert (over["result"], over["reason"]) == ("rejected", "a result of 8193 bytes is over the cap of 8192")
    assert at["result"] == "ok"
    assert sql.value("select octet_length(result::text) from taskq.finished") == 8192


@pytest.mark.parametrize("verb", ["fail", "snooze", "release"])
def test_a_checkpoint_fits_at_the_cap_and_is_rejected_a_byte_over(sql: Contract, verb: str) -> None:
    attempt = sql.new_attempt()
    needed = {"fail": {"error": "boom"}, "snooze": {"delay": timedelta(1)}, "release": {}}[verb]
    [over] = getattr(sql, verb)(**_ids(attempt), **needed, progress=_text_of(2049))
    [at] = getattr(sql, verb)(**_ids(attempt), **needed, progress=_text_of(2048))

    assert (over["result"], over["reason"]) == ("rejected", "progress of 2049 bytes is over the cap of 2048")
    assert at["status"] == "queued"
    assert sql.value("select octet_length(progress::text) from taskq.ready") == 2048


def test_a_checkpoint_of_a_beat_fits_at_the_cap_and_is_left_a_byte_over(sql: Contract) -> None:
    attempt = sql.new_attempt()

    def stored(size: int) -> bool:
        [beat] = sql.heartbeat(
            worker_id="w",
            job_ids=[attempt["job_id"]],
            attempt_ids=[attempt["attempt_id"]],
            progress={str(attempt["job_id"]): _text_of(size).obj},
        )
        return bool(beat["progress_stored"])

    assert (stored(2048), stored(2049)) == (True, False)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 8192, 8192),
        ("x" * 8193, 8192),
        ("x" * 1_000_000, 8192),
        ("é" * 4096, 8192),
        ("é" * 4097, 8192),
        ("x" + "é" * 4096, 8191),  # the last two bytes would be half a character
        ("€" * 4000, 8190),
        ("😀" * 4000, 8192),
        ("x" + "😀" * 4000, 8189),
        ("", 0),
    ],
)
@pytest.mark.parametrize("retryable", [True, False])
def test_an_error_is_cut_between_two_characters(sql: Contract, text: str, kept: int, retryable: bool) -> None:
    attempt = sql.new_attempt()
    sql.fail(**_ids(attempt), error=text, retryable=retryable)
    [row] = sql.job_history(job_id=attempt["job_id"])

    assert text.startswith(row["error"])
    assert kept - 4 < len(row["error"].encode()) <= 8192
    assert len(row["error"].encode()) == kept


@pytest.mark.parametrize("verb", ["snooze", "release", "cancel_attempt", "cancel_job"])
def test_a_reason_is_cut_between_two_characters(sql: Contract, verb: str) -> None:
    attempt = sql.new_attempt()
    reason = "x" + "é" * 600
    if verb == "cancel_job":
        sql.release(**_ids(attempt), delay=timedelta(1))
        sql.cancel_job(job_id=attempt["job_id"], reason=reason)
        stored = sql.job(attempt["job_id"])["reason"]
    else:
        argument = {"release": "cause"}.get(verb, "reason")
        needed = {"delay": timedelta(1)} if verb == "snooze" else {}
        getattr(sql, verb)(**_ids(attempt), **needed, **{argument: reason})
        stored = sql.job_history(job_id=attempt["job_id"])[0]["reason"]

    assert stored == "x" + "é" * 511


def test_actor_and_reason_of_an_operator_are_cut(sql: Contract) -> None:
    attempt = sql.new_attempt()
    sql.cancel_job(job_id=attempt["job_id"], actor="é" * 200, reason="é" * 2000)

    [row] = sql.rows("select actor, reason from taskq.audit")
    assert (row["actor"], row["reason"]) == ("é" * 127, "é" * 512)
    assert sql.job(attempt["job_id"])["reason"] == "é" * 512


ODD_WORD = "x" + "é" * 600


def test_a_word_that_nobody_knows_is_shown_up_to_a_whole_character(sql: Contract) -> None:
    """In every encoding: half a character in a message would become another error, and stop a whole batch."""
    attempt = sql.new_attempt()
    bad = [{**_ids(attempt), "verb": ODD_WORD}, {**_ids(attempt), "verb": "complete", ODD_WORD: 1}]
    rows = sql.settle(worker_id="w", settlements=Jsonb([*bad, {**_ids(attempt), "verb": "complete"}]))
    assert [row["result"] for row in rows] == ["rejected", "rejected", "ok"]
    assert all("xé" in row["reason"] for row in rows[:2])
    with refused("TQ422", "xé"):
        sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t", ODD_WORD: 1}]))
    for name in ("unique_mode", "unique_scope"):
        with refused("TQ422", "xé"):
            sql.new_job(unique_key="k", **{name: ODD_WORD})
    with refused("TQ422", "xé"):
        sql.list_jobs(status=ODD_WORD)
    with refused("TQ422", detail="xé"):
        sql.heartbeat(worker_id=ODD_WORD, job_ids=[1], attempt_ids=[1])


# -- what a JSON value may hold ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**200),
        10**300,
        0.1,
        1e-300,
        "\u0001\u001f\u007f",
        "\u2028\ufeff",
        "😀",
        "\\u0041",
        {"": {"": []}},
        [[[[[[[[[[]]]]]]]]]],
    ],
)
def test_a_payload_comes_back_as_it_was(sql: Contract, value: Any) -> None:
    assert sql.new_attempt(payload={"v": value})["payload"] == {"v": value}


# -- settings of a role -----------------------------------------------------------------------------------------

SETTINGS: dict[str, list[str]] = {
    "as shipped": [],
    "a half-hour zone": ["set timezone = 'Asia/Kolkata'"],
    "a zone with summer time": ["set timezone = 'America/New_York'"],
    "dates of another order": ["set datestyle = 'SQL, DMY'"],
    "intervals of the standard": ["set intervalstyle = 'sql_standard'"],
    "all of them": [
        "set timezone = 'America/New_York'",
        "set datestyle = 'German'",
        "set intervalstyle = 'sql_standard'",
        "set bytea_output = 'escape'",
        "set extra_float_digits = 0",
        "set standard_conforming_strings = off",
        "set escape_string_warning = off",
        "set transform_null_equals = on",
        "set lc_messages = 'C'",
        "set enable_indexscan = off",
        "set plan_cache_mode = 'force_custom_plan'",
        "set row_security = off",
    ],
}

_LIFE = """
do $do$
declare
  v_job bigint;
  v_attempt bigint;
begin
  v_job := job_id from taskq.enqueue('q', 't', p_delay => '1 day 2:00', p_ttl => '10 days', p_lease => '1 day',
    p_backoff => '90 minutes', p_backoff_max => '2 days');
  update taskq.ready set scheduled_at = taskq.clock() where id = v_job;
  v_attempt := attempt_id from taskq.claim('{q}', 'w');
  perform from taskq.heartbeat('w', array[v_job], array[v_attempt]);
  perform from taskq.snooze(v_job, v_attempt, '2 days');
  update taskq.ready set scheduled_at = taskq.clock() where id = v_job;
  v_attempt := attempt_id from taskq.claim('{q}', 'w');
  perform from taskq.settle('w', jsonb_build_array(jsonb_build_object(
    'job_id', v_job, 'attempt_id', v_attempt, 'verb', 'fail', 'retry_after', '1 day 00:30:00')));
  perform from taskq.set_queue('q', p_ttl => '3 days', p_retention_cancelled => '5 days');
  perform from taskq.cancel_job(v_job);
  perform from taskq.enqueue_many('q', '[{"task": "many", "delay": 5.5, "ttl": "1 day 2:00"},
    {"task": "at", "scheduled_at": "2030-03-10T01:30:00-05:00", "ttl": "25 hours"}]');
end
$do$
"""

#: Every instant and duration that is stored, as numbers, which no setting changes.
_SEEN = """
select 'jobs', task, extract(epoch from created_at), extract(epoch from ttl), extract(epoch from lease) from taskq.jobs
union all select 'ready', task, extract(epoch from scheduled_at), extract(epoch from expires_at), 0 from taskq.ready
union all
select 'attempts', verb, extract(epoch from claimed_at), extract(epoch from scheduled_at), 0 from taskq.attempts
union all select 'finished', task, extract(epoch from expires_at), extract(epoch from purge_at), 0 from taskq.finished
order by 1, 2, 3, 4
"""


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_a_role_change_no_instant_and_no_duration(
    sql: Contract, connect: Callable[..., Connection], clock: Clock, name: str
) -> None:
    """B52: a day is 24 hours, also across the night in which New York puts its clocks forward."""
    clock.forward(days=67, hours=12)
    assert clock.now == datetime(2030, 3, 9, 12, tzinfo=timezone.utc)
    session = Contract(connect())
    for setting in SETTINGS[name]:
        session.run(setting)
    session.run(_LIFE)

    def after(**duration: float) -> float:
        return (clock.now + timedelta(**duration)).timestamp()

    hour, day = 3600, 86400
    at = datetime(2030, 3, 10, 6, 30, tzinfo=timezone.utc).timestamp()
    assert [tuple(row) for row in sql.conn.execute(_SEEN).fetchall()] == [
        ("attempts", "fail", after(), after(days=1, minutes=30), 0),
        ("attempts", "snooze", after(), after(days=2), 0),
        ("finished", "t", after(days=11, hours=2), after(days=5), 0),
        ("jobs", "at", after(), 25 * hour, 60),
        ("jobs", "many", after(), 26 * hour, 60),
        ("jobs", "t", after(), 10 * day, day),
        ("ready", "at", at, at + 25 * hour, 0),
        ("ready", "many", after(seconds=5.5), after(hours=26, seconds=5.5), 0),
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_a_role_change_no_lease(
    sql: Contract, connect: Callable[..., Connection], clock: Clock, name: str
) -> None:
    clock.forward(days=67, hours=12)
    session = Contract(connect())
    for setting in SETTINGS[name]:
        session.run(setting)
    job_id = sql.new_job(lease=timedelta(days=1))

    def lease() -> tuple[float, float]:
        [row] = sql.rows(
            "select extract(epoch from lease) as l, extract(epoch from lease_expires_at) as e from taskq.running"
        )
        return float(row["l"]), float(row["e"])

    day_later = (clock.now + timedelta(days=1)).timestamp()
    fence = session.value("select attempt_id from taskq.claim('{q}', 'w')")
    assert lease() == (86400, day_later)
    session.run("select from taskq.heartbeat('w', array[%s]::bigint[], array[%s]::bigint[])", job_id, fence)
    assert lease() == (86400, day_later)


def test_a_time_without_zone_in_a_document_is_that_of_the_session(sql: Contract) -> None:
    """As everywhere in PostgreSQL; Python sends aware times only."""
    sql.run("set timezone = 'Asia/Kolkata'")
    document = Jsonb([{"task": "t", "scheduled_at": "2026-12-24 05:30"}])
    [row] = sql.enqueue_many(queue="q", jobs=document)

    assert sql.job(row["job_id"])["scheduled_at"] == datetime(2026, 12, 24, tzinfo=timezone.utc)


def test_whoever_adds_to_an_instant_fixes_the_zone() -> None:
    """Else a day would have 23 or 25 hours twice a year. What is inlined runs in a function that does."""
    adds = re.compile(r"\b(v_now|\w+_at) \+ |\bpurge_instant\(")
    inlined = {"functions/internal/purge_instant.sql"}
    careless = [
        file.path
        for file in shipped_files().functions
        if adds.search(file.text) and "set timezone = 'UTC'" not in file.text and file.path not in inlined
    ]
    assert careless == []
