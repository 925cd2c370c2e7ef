"""Hypothesis draws interleavings of calls and of the transactions around them, and looks for the shortest that fails.

`TASKQ_PROPERTY_EXAMPLES` makes it longer.
"""

# Scenarios B40, B41, B42, B43, run at random.

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from kit.contract import Clock, Connection, Contract
from properties.machine import Sessions, sessions

EXAMPLES = int(os.environ.get("TASKQ_PROPERTY_EXAMPLES", "20"))


@pytest.mark.own_database
def test_whatever_sessions_do_limits_hold_and_nobody_is_forgotten(connect: Callable[..., Connection]) -> None:
    actors = sessions([connect() for _ in range(4)])
    observer, clock = Contract(connect()), Clock(connect())

    run_state_machine_as_test(
        lambda: Sessions(actors, observer, clock),
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=40, suppress_health_check=list(HealthCheck)
        ),
    )
