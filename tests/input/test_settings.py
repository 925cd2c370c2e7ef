"""Settings that any role may change for its session: the answers stay the same under each of them.

Every setting of two or a few values is found in the catalog and turned to each of its other values; those with numbers
or names are listed. A fixed script of calls, good ones and bad ones, is run under each.
"""

# Scenarios B37, B52, B77.

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import Any

import psycopg
import pytest

from kit.contract import Clock, Connection

#: Calls of one session; {job} and {attempt} are those of the last claim. No literal is read in another way under a
#: setting: no text of a date, no null in an array, no backslash, but where the comment says so.
_SCRIPT = [
    "set_queue('q', p_max_attempts => 2, p_retention_failed => '60 days', p_aging => '2 days')",
    "set_concurrency_limit('k*', 2, 'ann', 'why not')",
    "announce('w', '{{\"queues\": [\"q\"], \"pid\": 7, \"slots\": \"8\", \"announce_every\": 12.5, "
    "\"host\": \"h\"}}')",
    "announce('liar', ('{{\"pid\": \"ddd\", \"announce_every\": \"3x5\", \"slots\": \"' || "
    "chr(1635) || '\"}}')::jsonb)",
    "workers()",
    "enqueue('q', 'plain', '{{\"n\": 1.10, \"x\": [null, true]}}', 3, p_ttl => '30 days', p_headers => '{{}}')",
    "enqueue('q', 'late', p_delay => '1 day 01:00:00', p_backoff => '90 s', p_lease => '00:00:00.5')",
    "enqueue('q', 'keyed', p_unique_key => 'u', p_concurrency_key => 'k1', p_unique_for => '40 days')",
    "enqueue('q', 'keyed', p_unique_key => 'u')",
    "enqueue('q', 'keyed', p_unique_key => 'U', p_unique_mode => 'replace')",
    "enqueue('q', 'keyed', '{{\"b\": 2}}', p_unique_key => 'u', p_unique_mode => 'replace')",
    "enqueue('q', 'third', p_concurrency_key => 'o', p_ordered => true)",
    "enqueue('q', null)",
    "enqueue('', 't')",
    "enqueue('q', 't', '[]')",
    "enqueue('q', E'\\x07')",
    "enqueue('x' || E'\\n', 't')",
    "enqueue('q', 't', p_priority => 32768)",
    "enqueue('q', 't', p_delay => '367 days')",
    "enqueue_many('r', '[{{\"task\": \"a\", \"delay\": 90.5}}, {{\"task\": \"b\", \"scheduled_at\": "
    "\"2030-02-01T00:00:00+01:00\"}}]')",
    "enqueue_many('r', '[{{\"task\": \"a\", \"lease\": \"1 hour\", \"ordered\": \"no\", \"priority\": \"5\"}}]')",
    "enqueue_many('r', '[{{\"task\": \"a\"}}, {{\"task\": \"b\", \"priority\": \"five\"}}]')",
    "poll_hint(array['r', 'q', 'none'])",
    "claim(array['q', 'r'], 'w', 2)",
    "heartbeat('w', array[{job}]::bigint[], array[{attempt}]::bigint[], '2 hours', '{{\"{job}\": [1]}}')",
    "cancel_job({job}, 'ann', 'enough')",
    "attempt_state({job}, {attempt})",
    "fail({job}, {attempt}, 'boom', p_retry_after => '1 day')",
    "claim(array['q', 'r'], 'w', 1)",
    "snooze({job}, {attempt}, '3 days 04:05:06', 'later', '{{\"at\": 1}}')",
    "claim(array['q', 'r'], 'w', 1)",
    "settle('w', '[{{\"job_id\": {job}, \"attempt_id\": {attempt}, \"verb\": \"complete\", "
    "\"result\": 1.50}}, 7, {{\"job_id\": \"x\"}}]')",
    "settle('w', '[{{\"job_id\": {job}, \"attempt_id\": {attempt}, \"verb\": \"fail\"}}]')",
    "complete({job}, {attempt})",
    "pause_queue('r')",
    "sleep_until('w', array['q'], '2030-01-01 00:01:00+00')",
    "queue_stats()",
    "list_jobs()",
    "list_jobs('q', p_status => 'succeeded')",
    "job_history({job})",
    "get_job(-1)",
    "hold_singleton('n')",
    "housekeep()",
    "check_integrity()",
    "stop_worker('w')",
    "stop_worker('nobody')",
]  # fmt: skip

#: Settings of a number or a name, at values that are odd and allowed.
_LISTED: dict[str, list[str]] = {
    "timezone": ["Asia/Kathmandu", "America/New_York", "<+1234>-12:34", "Europe/Lisbon"],
    "datestyle": ["SQL, DMY", "German", "Postgres, YMD"],
    "timezone_abbreviations": ["India", "Australia"],
    "client_encoding": ["LATIN1", "WIN1252", "SQL_ASCII", "EUC_JP"],
    "search_path": ["", "pg_temp", "taskq, public"],
    "extra_float_digits": ["-15", "3"],
    "lc_numeric": ["C"],
    "default_text_search_config": ["simple"],
    "from_collapse_limit": ["1"],
    "join_collapse_limit": ["1"],
    "geqo_threshold": ["2"],
    "work_mem": ["64kB"],
    "temp_buffers": ["800kB"],
    "max_parallel_workers_per_gather": ["8"],
    "min_parallel_table_scan_size": ["0"],
    "cursor_tuple_fraction": ["0"],
    "random_page_cost": ["1000"],
    "cpu_tuple_cost": ["1000"],
    "jit_above_cost": ["0"],
    "statement_timeout": ["60000"],
    "lock_timeout": ["1"],
    "idle_in_transaction_session_timeout": ["60000"],
    "gin_fuzzy_search_limit": ["1"],
    "default_statistics_target": ["1"],
    "application_name": ["'; select 1; --"],
}

#: So many settings are turned at once; only where an answer differs, one by one.
BUNDLE = 12

#: What is meant to differ, and why.
_EXEMPT = {
    "default_transaction_read_only": "nothing can be written then",
    "transaction_read_only": "nothing can be written then",
    "default_transaction_isolation": "claim refuses other levels, see tests/sql/test_claim.py",
    "transaction_isolation": "claim refuses other levels, see tests/sql/test_claim.py",
    "transaction_deferrable": "of a transaction, before it begins",
    "exit_on_error": "the session ends at the first bad argument",
    "ignore_system_indexes": "of a connection, before it begins",
}


def _settings(conn: Connection) -> list[tuple[str, str]]:
    """Return each setting that any role may change, with each value that it does not have."""
    rows = conn.execute("""
        select name, case vartype when 'bool' then array['on', 'off'] else enumvals end, setting
        from pg_settings where context = 'user' and vartype in ('bool', 'enum') order by name""").fetchall()
    found = [
        (name, value) for name, values, now in rows if name not in _EXEMPT for value in values if value != now
    ]
    return found + [(name, value) for name, values in _LISTED.items() for value in values]


def _answers(dsn: str, settings: list[tuple[str, str]]) -> list[object]:
    """Return what a new session with these *settings* is told, call by call; all is rolled back."""
    with closing(psycopg.connect(dsn, autocommit=True)) as conn:
        cursor = conn.cursor(binary=True)
        for name, value in settings:
            cursor.execute("select set_config(%s, %s, false)", (name, value))
        cursor.execute("begin")
        cursor.execute("alter sequence taskq.jobs_id_seq restart with 1000")
        cursor.execute("alter sequence taskq.fence restart with 5000")
        answers: list[object] = []
        ids = {"job": 0, "attempt": 0}
        for call in _SCRIPT:
            cursor.execute("savepoint call")
            try:
                rows = cursor.execute(f"select * from taskq.{call.format(**ids)}".encode()).fetchall()
            except psycopg.Error as error:
                answers.append(error.sqlstate)
                cursor.execute("rollback to call")
                continue
            if call.startswith("claim"):
                ids = {"job": rows[0][0], "attempt": rows[0][1]}
            answers.append([tuple(map(_plain, row)) for row in rows])
        cursor.execute("rollback")
        return answers


def _plain(value: Any) -> object:
    if isinstance(value, bytes):
        return value.decode()  # of a session in SQL_ASCII
    if isinstance(value, datetime):
        return value.timestamp()
    return [_plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.own_database
def test_no_setting_of_a_session_changes_an_answer(dsn: str, conn: Connection) -> None:
    Clock(conn)  # it stands
    usual = _answers(dsn, [])
    assert any(answer == "TQ422" for answer in usual)
    bundles: list[dict[str, str]] = []
    for name, value in _settings(conn):
        bundle = next((each for each in bundles if name not in each and len(each) < BUNDLE), None)
        if bundle is None:
            bundles.append(bundle := {})
        bundle[name] = value
    for bundle in bundles:
        if _answers(dsn, list(bundle.items())) == usual:
            continue
        for setting in bundle.items():  # which is it?
            assert dict(zip(_SCRIPT, _answers(dsn, [setting]), strict=True)) == dict(
                zip(_SCRIPT, usual, strict=True)
            ), setting
        raise AssertionError(f"together: {bundle}")
