"""The numbers a claim asks for."""

from __future__ import annotations

import pytest

from taskq_sync.worker.prefetch import CLAIM_LIMIT, HELD_LIMIT, HOLD_OFF, Prefetch


def settled_at(slots: int, jobs_per_second: float, rounds: int = 20) -> Prefetch:
    """Return the prefetch of *slots* that have finished so many jobs per second for a while."""
    prefetch = Prefetch(slots)
    for tick in range(1, rounds):
        prefetch.claimed(finished=int(tick * 0.1 * jobs_per_second), now=tick * 0.1)
    return prefetch


def test_first_claim_asks_for_the_slots_only() -> None:
    assert Prefetch(8).room(in_flight=0, held=0, now=0.0) == 8


def test_claims_nothing_while_slow_handlers_occupy_all_slots() -> None:
    prefetch = settled_at(8, jobs_per_second=0.5)
    assert prefetch.room(in_flight=8, held=8, now=2.0) == 0


def test_asks_for_one_job_as_soon_as_one_slot_is_free() -> None:
    prefetch = settled_at(8, jobs_per_second=0.5)
    assert prefetch.room(in_flight=7, held=7, now=2.0) == 1


@pytest.mark.parametrize(("rate", "ahead"), [(8.0, 2), (80.0, 20), (800.0, 200)])
def test_claims_ahead_what_the_slots_finish_in_a_quarter_of_a_second(rate: float, ahead: int) -> None:
    assert settled_at(8, jobs_per_second=rate).target == pytest.approx(ahead, abs=1)


def test_batches_of_fast_handlers_grow_to_the_cap_of_one_claim() -> None:
    prefetch = settled_at(8, jobs_per_second=20_000)
    assert prefetch.room(in_flight=0, held=0, now=2.0) == CLAIM_LIMIT


def test_one_fast_job_does_not_fill_the_buffer() -> None:
    prefetch = Prefetch(8)
    prefetch.claimed(finished=8, now=0.001)
    assert prefetch.target == 4 * 8


def test_waits_until_half_of_the_buffer_is_used() -> None:
    prefetch = settled_at(8, jobs_per_second=400)  # 100 ahead
    assert prefetch.room(in_flight=8 + 51, held=60, now=2.0) == 0
    assert prefetch.room(in_flight=8 + 50, held=60, now=2.0) == 50


def test_a_job_that_must_not_wait_stops_claiming_ahead_for_a_while() -> None:
    prefetch = settled_at(8, jobs_per_second=400)
    prefetch.met_unbuffered(now=2.0)
    assert prefetch.room(in_flight=8, held=8, now=2.0) == 0
    assert prefetch.room(in_flight=5, held=5, now=2.0) == 3
    assert prefetch.room(in_flight=8, held=8, now=2.0 + HOLD_OFF) == 100


def test_jobs_handed_back_empty_the_buffer() -> None:
    prefetch = settled_at(8, jobs_per_second=400)
    prefetch.overestimated()
    assert prefetch.room(in_flight=8, held=8, now=2.0) == 0


def test_verdicts_on_their_way_bound_what_is_claimed() -> None:
    prefetch = settled_at(8, jobs_per_second=20_000)
    assert prefetch.room(in_flight=0, held=HELD_LIMIT, now=2.0) == 8
    assert prefetch.room(in_flight=0, held=HELD_LIMIT + 8, now=2.0) == 0


def test_a_pause_without_work_ends_claiming_ahead() -> None:
    prefetch = settled_at(8, jobs_per_second=400)
    prefetch.claimed(finished=760, now=60.0)
    assert prefetch.target == 0
