"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from taskq_sync import TaskQ


@pytest.fixture
def make_tq(dsn: str) -> Iterator[Callable[..., TaskQ]]:
    """Make clients of the database of the test; they are closed at its end."""
    with ExitStack() as stack:
        yield lambda dsn=dsn, **settings: stack.enter_context(TaskQ(dsn, **settings))


@pytest.fixture
def tq(make_tq: Callable[..., TaskQ]) -> TaskQ:
    """A client of the database of the test."""
    return make_tq()


@pytest.fixture(params=["direct", "pooled"])
def either_tq(request: pytest.FixtureRequest, make_tq: Callable[..., TaskQ]) -> TaskQ:
    """A client that connects directly, and one that believes in a pooler."""
    return make_tq(pooled=request.param == "pooled")
