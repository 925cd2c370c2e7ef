"""What a handler returns or raises."""

from __future__ import annotations

import pickle
from datetime import timedelta

import attrs
import pytest

from taskq_sync.errors import InvalidInput
from taskq_sync.outcome import Cancel, Complete, NonRetryable, Outcome, Retry, Snooze

OUTCOMES = [
    Complete({"rows": [1]}),
    Snooze(5, {"page": 2}, "quota"),
    Cancel("left"),
    Retry(30, "busy", 7),
    NonRetryable("no such user"),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
class TestEachOutcome:
    def test_can_be_raised(self, outcome: Outcome) -> None:
        with pytest.raises(type(outcome)) as caught:
            raise outcome

        assert caught.value is outcome

    def test_is_equal_to_its_copy_by_pickle(self, outcome: Outcome) -> None:
        copy = pickle.loads(pickle.dumps(outcome))

        assert copy == outcome
        assert hash(copy) == hash(outcome)

    def test_is_frozen(self, outcome: Outcome) -> None:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            outcome.progress = 1  # type: ignore[attr-defined]

    def test_names_its_class_and_fields(self, outcome: Outcome) -> None:
        assert str(outcome) == repr(outcome)
        assert type(outcome).__name__ in str(outcome)


def test_delays_are_seconds_or_timedelta() -> None:
    assert Snooze(5) == Snooze(timedelta(seconds=5))
    assert Retry(after=1.5).after == timedelta(seconds=1.5)
    assert Retry().after is None


@pytest.mark.parametrize("delay", [0, 0.05, -1])
def test_a_snooze_lasts_at_least_a_tenth_of_a_second(delay: float) -> None:
    with pytest.raises(InvalidInput, match=r"snooze|delay"):
        Snooze(delay)


def test_differing_fields_make_differing_outcomes() -> None:
    assert Complete(1) != Complete(2)
    assert Complete(None) != Cancel(None)
