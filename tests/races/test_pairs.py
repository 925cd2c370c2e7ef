"""Every two calls that touch one job, by the table in `pairs`: side by side they do what they do one by one."""

# Scenarios B38, B40, B48.

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.contract import Row
from kit.databases import Databases
from races.pairs.arena import Arena
from races.pairs.outcome import differences, outcome
from races.pairs.verbs import PAIRS, VERBS


@pytest.fixture(scope="module")
def arena(databases: Databases) -> Iterator[Arena]:
    with Arena.opened(databases) as opened:
        yield opened


every_first = pytest.mark.parametrize(("stage", "first"), PAIRS, ids=map("-".join, PAIRS))


@every_first
def test_two_calls_do_what_they_do_in_one_order_or_the_other(stage: str, first: str, arena: Arena) -> None:
    """Who waited comes second. Who went round the job has done nothing, and comes second when called again."""
    wrong = {second: list(_side_by_side(arena, stage, first, second)) for second in PAIRS[stage, first]}

    assert not any(wrong.values()), wrong


@every_first
def test_a_call_beside_one_that_rolls_back_does_what_it_does_alone(
    stage: str, first: str, arena: Arena
) -> None:
    """Who went round the job has done nothing, and does it when called again."""
    wrong = {second: list(_beside_nothing(arena, stage, first, second)) for second in PAIRS[stage, first]}

    assert not any(wrong.values()), wrong


def _side_by_side(arena: Arena, stage: str, first: str, second: str) -> Iterator[str]:
    in_order = arena.one_by_one(stage, first, second)
    turned = arena.one_by_one(stage, second, first)
    turned = {**turned, "answers": turned["answers"][::-1]}
    first_alone = arena.one_by_one(stage, first)

    with arena.meeting(stage, first, second, rolls_back=False) as met:
        reached = outcome(met.state, met.first, met.second)
        if met.waited:
            yield from _may_wait(second)
            yield from differences(reached, in_order)
        elif reached not in (in_order, turned):
            if not VERBS[second].passed_by(met.second):
                yield from differences(reached, in_order)
                yield from differences(reached, turned)
            yield from differences(outcome(met.state, met.first), first_alone, unlike=_AUDIT)
            answer, state = met.again()
            yield from differences(outcome(state, met.first, answer), in_order, unlike=_AUDIT)


def _beside_nothing(arena: Arena, stage: str, first: str, second: str) -> Iterator[str]:
    before = arena.one_by_one(stage)
    alone = arena.one_by_one(stage, second)

    with arena.meeting(stage, first, second, rolls_back=True) as met:
        reached = outcome(met.state, met.second)
        if met.waited:
            yield from _may_wait(second)
            yield from differences(reached, alone)
        elif stage == "started" and first in _TAKES_A_FREE_KEY:
            yield from differences(reached, _without_the_key(alone, before))
        elif reached != alone:
            if not VERBS[second].passed_by(met.second):
                yield from differences(reached, alone)
            yield from differences(outcome(met.state), before, unlike=_AUDIT)
            answer, state = met.again()
            yield from differences(outcome(state, answer), alone, unlike=_AUDIT)


def _may_wait(second: str) -> Iterator[str]:
    if VERBS[second].passes_by is not None and not VERBS[second].may_wait:
        yield f"{second} waited"


#: What an operator did is on record, also where it came to nothing.
_AUDIT = ("audit",)


_TAKES_A_FREE_KEY = [name for name in VERBS if name.startswith("enqueue") and name != "enqueue_ordered"]


def _without_the_key(alone: Row, before: Row) -> Row:
    """Who ends an attempt waits for nobody who takes the free key of its job: it stays free, the job without it."""
    ready = [{**row, "is_unique": False} for row in alone["ready"]]
    return {**alone, "ready": ready, "unique_keys": before["unique_keys"]}
