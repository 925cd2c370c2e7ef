"""When an idle claimer looks again."""

# Scenario B50.

from __future__ import annotations

import pytest

from taskq_sync.worker.rest import HEAD_START, LOOKS_AFTER_LYING_DOWN, REGISTRATION, RENEWAL, Rest


@pytest.fixture
def rest() -> Rest:
    made = Rest(uniform=lambda low, high: low)
    made.listening = True
    return made


def test_looks_every_5_s_with_notifications_and_every_second_without() -> None:
    deaf = Rest()
    deaf.nothing_due(100.0, None)
    assert deaf.until == 101.0
    hearing = Rest()
    hearing.listening = True
    hearing.nothing_due(100.0, None)
    assert hearing.until == 105.0


@pytest.mark.parametrize("listening", [True, False])
def test_a_configured_interval_counts_in_both_cases(listening: bool) -> None:
    made = Rest(0.2)
    made.listening = listening
    made.nothing_due(100.0, None)
    assert made.until == pytest.approx(100.2)


def test_sleeps_no_longer_than_until_the_next_job_is_due(rest: Rest) -> None:
    rest.nothing_due(100.0, 2.5)
    assert rest.until == 102.5
    rest.nothing_due(100.0, 60.0)
    assert rest.until == 105.0
    rest.nothing_due(100.0, -1.0)
    assert rest.until == 100.0


def test_looks_again_at_0_and_0_1_and_1_s_after_lying_down(rest: Rest) -> None:
    assert LOOKS_AFTER_LYING_DOWN == (0.0, 0.1, 1.0)
    rest.lay_down(100.0)
    looks = []
    for now in (100.0, 100.001, 100.101, 101.001):
        rest.nothing_due(now, None)
        looks.append(rest.until)
    assert looks == pytest.approx([100.0, 100.1, 101.0, 106.001])


def test_gives_the_slots_a_head_start_before_it_looks_for_more(rest: Rest) -> None:
    rest.lay_down(100.0)
    rest.found_some(200.0)
    assert rest.until == 200.0 + HEAD_START
    assert rest.lying


def test_only_who_hears_lies_down() -> None:
    assert not Rest().must_register(100.0)


def test_registers_once_and_renews_in_time(rest: Rest) -> None:
    assert rest.must_register(100.0)
    rest.lay_down(100.0)
    assert rest.lying
    assert not rest.must_register(100.0 + REGISTRATION - RENEWAL - 0.1)
    assert rest.must_register(100.0 + REGISTRATION - RENEWAL)


def test_a_renewal_needs_no_extra_looks(rest: Rest) -> None:
    rest.lay_down(100.0)
    for now in (100.0, 100.1, 101.0):
        rest.nothing_due(now, None)
    rest.lay_down(150.0)
    rest.nothing_due(150.0, None)
    assert rest.until == 155.0


def test_whoever_got_up_registers_again(rest: Rest) -> None:
    rest.lay_down(100.0)
    rest.got_up()
    assert not rest.lying
    assert rest.must_register(100.1)


def test_a_failed_call_forgets_the_registration(rest: Rest) -> None:
    rest.lay_down(100.0)
    rest.failed(100.0, 0.5)
    assert rest.until == 100.5
    assert rest.must_register(100.5)


def test_ready_queues_are_tried_again_at_once_and_then_ever_less_often(rest: Rest) -> None:
    pauses = []
    for _ in range(12):
        rest.passed_over(100.0)
        pauses.append(round(rest.until - 100.0, 3))
    assert pauses[:3] == [0.005, 0.005, 0.005]
    assert pauses[3:7] == [0.05, 0.1, 0.2, 0.4]
    assert pauses[-1] == 5.0


def test_a_find_ends_the_growing_of_the_pauses(rest: Rest) -> None:
    for _ in range(8):
        rest.passed_over(100.0)
    rest.over()
    assert rest.until == 0.0
    rest.passed_over(100.0)
    assert rest.until == pytest.approx(100.005)


def test_five_thousand_looks_in_vain_neither_overflow_nor_outgrow_the_interval() -> None:
    """B50."""
    made = Rest(3.0)
    for _ in range(5000):
        made.passed_over(100.0)
    assert made.until == pytest.approx(103.0)
    for _ in range(5000):
        made.nothing_due(100.0, None)
    assert made.until == pytest.approx(103.0)
