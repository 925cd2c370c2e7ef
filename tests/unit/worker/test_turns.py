"""The order of the queues from claim to claim."""

# Scenario B46: each of several full queues gets its turn.

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_sync.worker.turns import Turns

WEIGHTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=1)


def firsts(turns: Turns, count: int) -> str:
    return "".join(turns.next()[0] for _ in range(count))


def test_the_order_of_equal_queues_rotates() -> None:
    turns = Turns({"a": 1, "b": 1, "c": 1})

    orders = ["".join(turns.next()) for _ in range(4)]

    assert orders == ["abc", "bca", "cab", "abc"]


def test_a_weight_is_spread_evenly() -> None:
    assert firsts(Turns({"a": 4, "b": 1}), 10) == "aabaaaabaa"
    assert firsts(Turns({"a": 5, "b": 1, "c": 1}), 7) == "aabacaa"


def test_the_others_follow_by_what_they_are_owed() -> None:
    turns = Turns({"a": 1, "b": 3, "c": 2})

    assert ["".join(turns.next()) for _ in range(6)] == ["bca", "cab", "abc", "bca", "cba", "bac"]


def test_strict_is_always_the_order_given() -> None:
    turns = Turns({"b": 1, "a": 1}, strict=True)

    assert [turns.next() for _ in range(3)] == [["b", "a"]] * 3


@pytest.mark.parametrize("strict", [True, False])
def test_one_queue_is_always_first(strict: bool) -> None:
    turns = Turns({"a": 7}, strict=strict)

    assert [turns.next() for _ in range(3)] == [["a"]] * 3


@given(WEIGHTS, st.integers(1, 3))
def test_each_queue_is_first_in_proportion_to_its_weight(weights: dict[str, int], rounds: int) -> None:
    total = sum(weights.values())

    seen = Counter(firsts(Turns(weights), rounds * total))

    assert seen == {queue: rounds * weight for queue, weight in weights.items()}


@given(WEIGHTS, st.integers(0, 200))
def test_no_queue_is_ever_far_behind(weights: dict[str, int], claims: int) -> None:
    total = sum(weights.values())

    seen = Counter(firsts(Turns(weights), claims))

    assert all(abs(seen[queue] - claims * weight / total) < len(weights) for queue, weight in weights.items())


@given(WEIGHTS)
def test_every_claim_looks_into_every_queue(weights: dict[str, int]) -> None:
    turns = Turns(weights)

    assert all(sorted(turns.next()) == sorted(weights) for _ in range(20))
