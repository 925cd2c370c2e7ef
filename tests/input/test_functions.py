"""Every function meets hostile values in each of its parameters: it refuses them in words, or nothing comes of it.

A refusal is one that the header of the function warns of; it names what was wrong, and has changed nothing. What
is taken can be claimed, settled, looked at and pruned like everything else. `TASKQ_PROPERTY_EXAMPLES` makes the part
with random values longer.
"""

# Scenarios B27, B39, B59, B64, B76, B77.

from __future__ import annotations

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import given

from input.examples import many
from input.values import HOSTILE, hostile, values_of
from input.world import World
from kit.sql_api import sql_api

FUNCTIONS = sorted(each.name for group in sql_api.contract().values() for each in group)


def test_the_functions_are_those_of_the_contract(world: World) -> None:
    assert sorted(world.functions) == FUNCTIONS


def test_every_type_of_a_parameter_has_hostile_values(world: World) -> None:
    types = {each.type for function in world.functions.values() for each in function.parameters}

    assert types <= HOSTILE.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_good_arguments_are_taken(world: World, name: str) -> None:
    """Else what the tests below learn of one bad argument would be nothing."""
    function = world.functions[name]
    with world.trial():
        world.call(function, world.arguments(function))
        world.live_on()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_hostile_argument_does_no_harm(world: World, name: str) -> None:
    faults = []
    for parameter in world.functions[name].parameters:
        tries = [{parameter.name: value} for value in values_of(parameter.name, parameter.type)]
        # each makes a job of its own, unless they all ask for one key
        together = name.startswith("enqueue") and not parameter.name.startswith(
            ("p_unique_m", "p_unique_s", "p_unique_f")
        )
        for group in [tries] if together else [[each] for each in tries]:
            try:
                world.check(name, *group)
            except (AssertionError, psycopg.Error) as error:
                faults.append(f"{str(group)[:200]}: {str(error)[:600]}")

    assert faults == []
    assert world.read_digest() == world.digest


def test_random_arguments_do_no_harm(world: World) -> None:
    names = [name for name in FUNCTIONS if world.functions[name].parameters]

    @many
    @given(st.data())
    def try_one(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(names))
        chosen = data.draw(
            st.lists(st.sampled_from(world.functions[name].parameters), min_size=1, max_size=3, unique=True)
        )
        world.check(name, {each.name: data.draw(hostile(each.type), label=each.name) for each in chosen})

    try_one()
    assert world.read_digest() == world.digest
