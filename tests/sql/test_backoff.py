"""How long a job waits after its failures: no base, cap or count overflows, and no job is lost by it."""

# Scenario B50.

from __future__ import annotations

from datetime import timedelta

import pytest

from kit.contract import Clock, Contract

HOUR = 3600.0
YEAR = 366 * 86400.0

#: base, cap and failures, all in seconds, and the delay without jitter
DELAYS = [
    (2, HOUR, 1, 2),
    (2, HOUR, 2, 4),
    (2, HOUR, 3, 8),
    (2, HOUR, 11, 2048),
    (2, HOUR, 12, HOUR),
    *((2, HOUR, failures, HOUR) for failures in (16, 17, 46, 47, 62, 63, 64, 65, 1024, 1025, 1999, 2000)),
    (2, HOUR, 100_000, HOUR),
    (0, HOUR, 1, 0),
    (0, HOUR, 2000, 0),
    (0, 0, 5, 0),
    (1, HOUR, 1, 1),
    (1, HOUR, 2, 2),
    (1, HOUR, 2000, HOUR),
    (5, HOUR, 17, HOUR),
    (100, 10, 1, 10),  # a cap below the base
    (100, 10, 2000, 10),
    (100, 0, 1, 0),
    (0.000001, YEAR, 1, 0.000001),
    (0.000001, YEAR, 2000, YEAR),
    (YEAR, YEAR, 1, YEAR),
    (YEAR, YEAR, 2000, YEAR),
    (30, HOUR, 0, 30),  # never asked, but no less than the first
]


@pytest.mark.parametrize(("base", "cap", "failures", "expected"), DELAYS)
def test_doubles_from_the_base_to_the_cap(
    sql: Contract, base: float, cap: float, failures: int, expected: float
) -> None:
    delays = sql.value(
        "select array_agg(taskq.backoff_delay(%s, %s, %s)) from generate_series(1, 50)",
        timedelta(seconds=base),
        timedelta(seconds=cap),
        failures,
    )

    assert len(delays) == 50
    for delay in delays:
        assert expected * 0.85 - 1e-6 <= delay.total_seconds() <= expected * 1.15 + 1e-6


def test_spreads_by_fifteen_percent_both_ways(sql: Contract) -> None:
    """Jobs that failed together must not come back together."""
    delays = sql.value(
        "select array_agg(taskq.backoff_delay('100 s', '1 h', 1)) from generate_series(1, 500)"
    )
    seconds = sorted(delay.total_seconds() for delay in delays)

    assert len(set(seconds)) > 400
    assert 85 <= seconds[0] < 90
    assert 110 < seconds[-1] <= 115
    assert 97 < sum(seconds) / 500 < 103


@pytest.mark.parametrize("failures_before", [16, 17, 46, 47, 62, 63, 1024, 1998])
@pytest.mark.parametrize(("base", "cap"), [(2, HOUR), (0, HOUR), (1, HOUR), (100, 10), (YEAR, YEAR)])
def test_a_failing_job_always_comes_back(
    sql: Contract, clock: Clock, failures_before: int, base: float, cap: float
) -> None:
    attempt = sql.new_attempt(
        max_attempts=2000, backoff=timedelta(seconds=base), backoff_max=timedelta(seconds=cap)
    )
    sql.run("update taskq.running set failure_count = %s, attempt_count = 100000", failures_before)
    [row] = sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom")
    delay = (row["scheduled_at"] - clock.now).total_seconds()
    expected = 0 if base == 0 else cap

    assert (row["result"], row["status"]) == ("retry_scheduled", "queued")
    assert expected * 0.85 <= delay <= expected * 1.15
    assert sql.job(attempt["job_id"])["failure_count"] == failures_before + 1


def test_the_last_of_two_thousand_attempts_ends_the_job(sql: Contract) -> None:
    attempt = sql.new_attempt(max_attempts=2000)
    sql.run("update taskq.running set failure_count = 1999")
    [row] = sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom")

    assert (row["result"], row["status"]) == ("dead", "failed")


def test_a_base_of_zero_is_at_once(sql: Contract, clock: Clock) -> None:
    attempt = sql.new_attempt(backoff=timedelta(0))
    [row] = sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom")

    assert row["scheduled_at"] == clock.now
    assert sql.take()["job_id"] == attempt["job_id"]


@pytest.mark.parametrize(
    ("base", "cap", "expected"), [(0, HOUR, 0), (1, HOUR, 1), (100, 10, 10), (YEAR, YEAR, YEAR)]
)
def test_a_second_lease_lost_in_a_row_waits_for_one_backoff(
    sql: Contract, clock: Clock, base: float, cap: float, expected: float
) -> None:
    attempt = sql.new_attempt(
        max_attempts=2000, backoff=timedelta(seconds=base), backoff_max=timedelta(seconds=cap)
    )
    sql.run("update taskq.running set failure_count = 1024, expiry_streak = 1")
    sql.run_out(attempt["job_id"])
    [row] = sql.take_back()

    assert row["status"] == "queued"
    assert expected * 0.85 <= (row["scheduled_at"] - clock.now).total_seconds() <= expected * 1.15
