"""Pauses that grow."""

# Scenario B50.

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskq_sync.backoff import JITTER, Backoff, pause


def plain(failures: int, base: float, cap: float) -> float:
    return pause(failures, base=base, cap=cap, uniform=lambda low, high: 1.0)


def test_doubles_up_to_the_cap() -> None:
    assert [plain(n, 30, 200) for n in range(1, 6)] == [30, 60, 120, 200, 200]


def test_is_nothing_without_failures_or_base() -> None:
    assert plain(0, 30, 200) == 0
    assert plain(9, 0, 200) == 0


@given(st.integers(-10, 10**9), st.floats(0, 1e9), st.floats(0, 1e9))
def test_stays_within_the_cap_and_its_jitter(failures: int, base: float, cap: float) -> None:
    assert 0 <= pause(failures, base=base, cap=cap) <= cap * (1 + JITTER)


def test_counts_failures_until_reset() -> None:
    backoff = Backoff(base=1, cap=60)

    first, second = backoff.next(), backoff.next()
    backoff.reset()
    again = backoff.next()

    assert 0.85 <= first <= 1.15
    assert 1.7 <= second <= 2.3
    assert 0.85 <= again <= 1.15


def test_an_outage_of_five_thousand_failures_neither_overflows_nor_outgrows_the_cap() -> None:
    backoff = Backoff(base=1, cap=60)

    pauses = [backoff.next() for _ in range(5000)]

    assert all(0 < each <= 60 * (1 + JITTER) for each in pauses)
    assert min(pauses[10:]) >= 60 * (1 - JITTER)
