"""The errors: each pickles whole, and says what to do."""

from __future__ import annotations

import pickle

import pytest

from taskq_sync import errors
from taskq_sync.errors import (
    DatabaseUnavailable,
    EnqueueInterrupted,
    InvalidInput,
    OutcomeUnknown,
    PayloadError,
    QueueFull,
    TaskQError,
)

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, TaskQError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_pickles_with_its_attributes(kind: type[TaskQError]) -> None:
    error = kind("job 7 is gone", hint="look again")

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is kind
    assert str(copy) == str(error) == "job 7 is gone: look again"
    assert vars(copy) == vars(error)


def test_pickles_what_only_one_class_has() -> None:
    assert pickle.loads(pickle.dumps(PayloadError("no", path="$.a[1]"))).path == "$.a[1]"
    assert pickle.loads(pickle.dumps(InvalidInput("no", ordinal=3, sqlstate="TQ422"))).ordinal == 3
    assert pickle.loads(pickle.dumps(QueueFull("no", depth=10, sqlstate="TQ429"))).depth == 10
    interrupted = pickle.loads(pickle.dumps(EnqueueInterrupted("no", job_ids=[4, None, 6], uncertain=[1])))
    assert (interrupted.job_ids, interrupted.uncertain) == ((4, None, 6), (1,))


def test_tells_the_positions_of_the_jobs_that_are_in() -> None:
    assert EnqueueInterrupted("no", job_ids=[4, None, 6]).enqueued == (0, 2)


def test_without_a_hint_is_the_message() -> None:
    assert str(TaskQError("no")) == "no"


def test_an_unknown_outcome_is_an_unavailable_database() -> None:
    assert issubclass(OutcomeUnknown, DatabaseUnavailable)


def test_the_module_draws_every_class_in_its_tree() -> None:
    assert errors.__doc__ is not None
    for kind in CLASSES:
        assert kind.__name__ in errors.__doc__
